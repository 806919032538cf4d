"""Locks: several tuners on one store claim the trials they are working on.

A lock is on one byte of ``<store>.claims``, an empty file, at the offset that the
trial's key says. Nothing is written, and the system drops the locks of a process that ends, however it ends.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Protocol

PLACES = 1 << 62  # bytes that a file may have


class Locks(Protocol):
    """Locks on trials that a tuner works on."""

    def take(self, key: str) -> bool:
        """Lock a trial; false if it is locked."""
        ...

    def release(self, key: str) -> None:
        """Give a lock back."""
        ...

    def close(self) -> None:
        """Give all locks back."""
        ...


class NoLocks:
    """For stores without a file: everything is free. Tuners there share results, but may do the same work at once."""

    def take(self, key: str) -> bool:
        """Nobody else is known."""
        return True

    def release(self, key: str) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to give back."""


class FileLocks:
    """Locks among the processes of one machine, or of a file system with locks."""

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".claims")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, key: str) -> bool:
        """Lock a trial; false if another process has it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset_of(key))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, key: str) -> None:
        """Give a lock back."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, offset_of(key))

    def close(self) -> None:
        """Give all locks back."""
        os.close(self._descriptor)


def offset_of(key: str) -> int:
    """Which byte stands for a trial."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % PLACES
