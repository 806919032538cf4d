"""Files that others may have made: regular, of bounded size, opened without waiting for anybody.

A FIFO would wait for ever, a device such as ``/dev/zero`` would never end. What is wrong is an `OSError` whose
``strerror`` says it, as for a file that is not there.
"""

import errno
import os
import stat
import tempfile
from pathlib import Path

from autotune.core.errors import AutotuneError

FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a disk that is full
SCRATCH = "AUTOTUNE_SCRATCH"  # environment variable: a file to overwrite, for a process that may make none
KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
}


def read_file(path: str | Path, most_bytes: int) -> bytes:
    """The bytes of a regular file.

    Args:
        path: The file; a link is followed.
        most_bytes: Most bytes that it may hold.

    Raises:
        OSError: The file cannot be opened, is no regular file, or holds more.
    """
    with open(path, "rb", opener=open_at_once) as file:
        check_status(os.fstat(file.fileno()), path, most_bytes)
        data = file.read(most_bytes + 1)  # it may grow meanwhile
    if len(data) > most_bytes:
        raise too_large(path, most_bytes)
    return data


def holds(folder: str | Path, name: str) -> bool:
    """Whether a folder holds a file; where it cannot be looked at it holds none, and whoever reads it says why."""
    return os.path.isfile(os.path.join(folder, name))  # `Path.is_file` raises, and of a name that nobody gave


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all; folders of its path are made.

    Raises:
        OSError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise


def read_text(path: str | Path, most_bytes: int, requirement: str, error: type[AutotuneError]) -> str:
    """The text of a regular file that a user names.

    Args:
        path: The file.
        most_bytes: Most bytes that it may hold.
        requirement: What the file must be, a sentence.
        error: Class of the error where it is not.

    Raises:
        AutotuneError: The file cannot be read, holds more, or is no text.
    """
    try:
        return read_file(path, most_bytes).decode()
    except (OSError, ValueError) as wrong:
        reason = getattr(wrong, "strerror", None) or "it is not text"
        raise error(f"{requirement}, {path} is not: {reason}") from wrong


def open_at_once(path: str, flags: int) -> int:
    """Open as `open` does, but do not wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_file(path: str | Path, most_bytes: int | None = None) -> None:
    """Refuse a path that a library is about to open, unless it is a regular file.

    Raises:
        OSError: The path is of nothing, of no regular file, or of more than `most_bytes`.
    """
    check_status(os.stat(path), path, most_bytes)


def check_status(found: os.stat_result, path: str | Path, most_bytes: int | None) -> None:
    """Refuse what is no regular file, or too large.

    Raises:
        OSError: The path is of something else, or holds too much.
    """
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
    if most_bytes is not None and found.st_size > most_bytes:
        raise too_large(path, most_bytes)


def too_large(path: str | Path, most_bytes: int) -> OSError:
    """The error of a file that holds too much."""
    return OSError(errno.EFBIG, f"it is larger than {most_bytes / 2**20:.4g} MiB", str(path))
