"""Atomic exchange of two paths, which leaves a consistent state if the process is killed."""

import ctypes
import errno
import os
from pathlib import Path

HERE = -100  # AT_FDCWD: paths are relative to the working directory
EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EPERM)  # of kernels, file systems and sandboxes


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths of one file system atomically.

    Args:
        one: Path of a file or folder.
        other: Path of another file or folder.

    Returns:
        Whether they were exchanged; `False` where the system does not support it, and nothing has changed.

    Raises:
        OSError: A path does not exist, or may not be renamed.
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
