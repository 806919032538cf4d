"""Reading of untrusted files: regular ones only, of bounded size, opened without blocking.

A FIFO would block forever, a device such as ``/dev/zero`` would never end. Violations are an `OSError` with a
``strerror``, as for a missing file.
"""

import errno
import os
import resource
import stat
from pathlib import Path

from autotune.core.errors import AutotuneError

FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a full disk
SCRATCH = "AUTOTUNE_SCRATCH"  # environment variable: a file to overwrite, for a process that may not create any
KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
}


def read_file(path: str | Path, most_bytes: int) -> bytes:
    """Read a regular file.

    Args:
        path: The file; links are followed.
        most_bytes: Largest size in bytes.

    Raises:
        OSError: The file cannot be opened, is no regular file, or is larger.
    """
    try:
        with open(path, "rb", opener=open_at_once) as file:
            check_status(os.fstat(file.fileno()), path, most_bytes)
            data = file.read(most_bytes + 1)  # the file may have grown since
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, link_at(path) or error.strerror, str(path)) from error
    if len(data) > most_bytes:
        raise too_large(path, most_bytes)
    return data


def link_at(path: str | Path) -> str:
    """Describe a dangling or looping symbolic link, for a message; empty for any other path."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return f"it is a link to {os.readlink(path)}, which is not there" if os.path.islink(path) else ""
    except OSError as error:
        return "it is a link that leads to itself" if error.errno == errno.ELOOP else ""
    except ValueError:  # a NUL in it
        return ""
    return ""


def why_refused(error: OSError) -> str:
    """Return the reason of an error of the system, with the limit of this user where that is the reason."""
    why = error.strerror or str(error)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if why != os.strerror(errno.EFBIG) or most == resource.RLIM_INFINITY:  # ours of this number say what is too large
        return why
    return f"{why} for this user, who may write {most / 2**10:.4g} KiB; raise ulimit -f"


def kind_at(path: str | Path) -> str:
    """Describe what a path names, for a message; empty if it does not exist or is not accessible."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return link_at(path)
    return f"it is {KINDS.get(stat.S_IFMT(mode), 'a file')}"


def holds(folder: str | Path, name: str) -> bool:
    """Return whether a folder contains a file; `False` where it is not accessible, and reading it raises the reason."""
    return os.path.isfile(os.path.join(folder, name))  # unlike `Path.is_file`, it does not raise


def read_text(path: str | Path, most_bytes: int, requirement: str, error: type[AutotuneError]) -> str:
    """Read the text of a regular file that a user names.

    Args:
        path: The file.
        most_bytes: Largest size in bytes.
        requirement: Requirement on the file, a sentence that begins the message.
        error: Class of the error that is raised.

    Raises:
        AutotuneError: The file cannot be read, is larger, or is not UTF-8.
    """
    try:
        text = read_file(path, most_bytes).decode()
    except (OSError, ValueError) as wrong:
        reason = getattr(wrong, "strerror", None) or "it is not text"
        raise error(f"{requirement}, {path} is not: {reason}") from wrong
    if "\0" in text:  # MLIR reads it as white space, C as the end
        raise error(f"{requirement}, {path} is not: line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL")
    return text


def open_at_once(path: str, flags: int) -> int:
    """Open without blocking, for use as an opener of `open`: a FIFO does not wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_file(path: str | Path, most_bytes: int | None = None) -> None:
    """Raise unless a path, which a library is about to open, is a regular file.

    Raises:
        OSError: The path does not exist, is no regular file, or is larger than `most_bytes`.
    """
    check_status(os.stat(path), path, most_bytes)


def check_status(status: os.stat_result, path: str | Path, most_bytes: int | None) -> None:
    """Raise unless a status is that of a regular file of bounded size.

    Raises:
        OSError: The path is no regular file, or is too large.
    """
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
    if most_bytes is not None and status.st_size > most_bytes:
        raise too_large(path, most_bytes)


def too_large(path: str | Path, most_bytes: int) -> OSError:
    """Return the error for a file that is too large."""
    return OSError(errno.EFBIG, f"it is larger than {most_bytes / 2**20:.4g} MiB", str(path))
