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
    try:
        with open(path, "rb", opener=open_at_once) as file:
            check_status(os.fstat(file.fileno()), path, most_bytes)
            data = file.read(most_bytes + 1)  # it may grow meanwhile
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, link_at(path) or error.strerror, str(path)) from error
    if len(data) > most_bytes:
        raise too_large(path, most_bytes)
    return data


def link_at(path: str | Path) -> str:
    """What is wrong with a link, in words; empty where a path is none, or leads somewhere."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return f"it is a link to {os.readlink(path)}, which is not there" if os.path.islink(path) else ""
    except OSError as error:
        return "it is a link that leads to itself" if error.errno == errno.ELOOP else ""
    except ValueError:  # a NUL in it
        return ""
    return ""


def kind_at(path: str | Path) -> str:
    """What lies at a path, in words; empty where nothing does, or nothing that may be looked at."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return link_at(path)
    return f"it is {KINDS.get(stat.S_IFMT(mode), 'a file')}"


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
        text = read_file(path, most_bytes).decode()
    except (OSError, ValueError) as wrong:
        reason = getattr(wrong, "strerror", None) or "it is not text"
        raise error(f"{requirement}, {path} is not: {reason}") from wrong
    if "\0" in text:  # which MLIR reads as a space, and other readers as an end
        raise error(f"{requirement}, {path} is not: line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL")
    return text


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
