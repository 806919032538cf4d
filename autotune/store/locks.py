"""Locks on trials, by which several tuners that share a store avoid evaluating the same trial.

A lock covers one byte of ``<store>.claims``, an empty file, at an offset derived from the trial's key. Nothing is
written, and the system releases the locks of a process when it ends for any reason.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Protocol

OFFSETS = 1 << 62  # number of possible offsets: below the maximum size of a file


class Locks(Protocol):
    """Locks on trials that a tuner works on."""

    def take(self, key: str) -> bool:
        """Lock a trial; return false if it is locked already."""
        ...

    def release(self, key: str) -> None:
        """Release the lock of a trial."""
        ...

    def close(self) -> None:
        """Release all locks."""
        ...


class NoLocks:
    """Locks that never conflict, for stores without a file: tuners share results, but may evaluate the same trial."""

    def take(self, key: str) -> bool:
        """Return true."""
        return True

    def release(self, key: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class FileLocks:
    """Locks between processes on one machine, or on a shared file system that supports locks."""

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".claims")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def take(self, key: str) -> bool:
        """Lock a trial; return false if another process has locked it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset_of(key))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, key: str) -> None:
        """Release the lock of a trial."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, offset_of(key))

    def close(self) -> None:
        """Release all locks."""
        os.close(self._descriptor)


def offset_of(key: str) -> int:
    """Return the offset of the byte that is locked for a trial."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % OFFSETS
