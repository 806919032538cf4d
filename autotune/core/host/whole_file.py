"""Atomic writes of files named by users: on failure the old file remains, and the error names the requested path."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.core.host.scratch import Scratch

BESIDE = ".autotune-"  # prefix of the temporary folders in which files are written


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Return a file to write, which replaces `path` atomically at the end of the block.

    Devices, FIFOs, and files with several hard links are written in place.

    Args:
        path: The requested file; its folder must exist.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    try:
        if not may_be_replaced(path):
            yield path
            return
        with Scratch(BESIDE, path.parent) as scratch:
            fresh = scratch.path / path.name  # same name: libraries derive the format from the suffix
            yield fresh
            if path.exists():
                shutil.copymode(path, fresh)
            os.replace(fresh, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file atomically.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    with whole_file(path) as fresh:
        fresh.write_bytes(data.encode() if isinstance(data, str) else data)


def may_be_replaced(path: Path) -> bool:
    """Return whether a path does not exist, or is a writable regular file with one hard link in a writable folder."""
    try:
        status = os.lstat(path)
    except OSError:  # writing it raises the reason
        return True
    is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_writable
