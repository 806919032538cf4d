"""Files that users name, written whole or not at all: what fails leaves the file of before, and names the one meant."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.core.host.scratch import Scratch

BESIDE = ".autotune-"  # what names of folders begin with in which files are written


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of another when it is whole.

    A device, a FIFO, and a file that has several names are written to where they are.

    Args:
        path: The file that is meant; its folder is there.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    try:
        if not may_be_replaced(path):
            yield path
            return
        with Scratch(BESIDE, path.parent) as scratch:
            fresh = scratch.path / path.name  # libraries read the end of its name
            yield fresh
            if path.exists():
                shutil.copymode(path, fresh)
            os.replace(fresh, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    with whole_file(path) as fresh:
        fresh.write_bytes(data.encode() if isinstance(data, str) else data)


def may_be_replaced(path: Path) -> bool:
    """Whether a path is of nothing, or of a file that has one name and may be written, as may its folder."""
    try:
        found = os.lstat(path)
    except OSError:  # whoever writes it is told why
        return True
    is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and is_writable
