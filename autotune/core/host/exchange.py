"""Two paths that exchange what they name, at once: whoever is killed in between leaves the one or the other, whole."""

import ctypes
import errno
import os
from pathlib import Path

HERE = -100  # AT_FDCWD: relative paths are those of the process
EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EPERM)  # of kernels, file systems and sandboxes


def exchange(one: Path, other: Path) -> bool:
    """Let two paths of one file system name what the other does.

    Args:
        one: A file or folder.
        other: Another one.

    Returns:
        Whether it was done; `False` where the system cannot, and nothing has changed.

    Raises:
        OSError: One of them is not there, or may not be renamed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(other))
