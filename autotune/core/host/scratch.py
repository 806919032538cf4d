"""Temporary folders that are removed on close, or by a later process if theirs was killed.

A killed process cannot clean up. While it runs it holds a lock on its folder, which the system releases when it ends:
folders without a lock are removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from autotune.core.errors import MachineError
from autotune.core.host.files import SCRATCH
from autotune.core.printable import is_unicode

WORKERS = "autotune-worker-"
STARTING = "starting-"  # prefix until the lock is held, so that no other process removes the folder


class Scratch:
    """Temporary folder that a later process removes if this one is killed.

    Attributes:
        path: The folder, which may be renamed to keep it.
    """

    def __init__(self, prefix: str = WORKERS, parent: Path | None = None) -> None:
        """Create the folder, and remove those of the same prefix whose processes have ended.

        Args:
            prefix: Prefix of the names of such folders.
            parent: Parent folder; by default the system's folder for temporary files.

        Raises:
            MachineError: The system's folder has a name that MLIR cannot be given.
            OSError: The parent is not writable.
        """
        parent = parent or temporary_folder()
        sweep(parent, prefix)
        fresh = Path(tempfile.mkdtemp(prefix=f".{STARTING}{prefix}", dir=parent))
        self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks, on which nothing is ever removed
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = fresh.rename(parent / fresh.name.removeprefix(f".{STARTING}"))

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Remove the folder with its contents, unless it was renamed."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def detach(self) -> None:
        """Leave the folder and its lock to the parent process, in a fork."""
        os.close(self._lock)


def temporary_folder() -> Path:
    """Return the system's folder for temporary files.

    Raises:
        MachineError: The name is not Unicode: MLIR writes object files there, and takes no other names.
    """
    folder = tempfile.gettempdir()
    if not is_unicode(folder):
        raise MachineError(f"the folder of temporary files must have a name in UTF-8, {folder!r} has none; set TMPDIR")
    return Path(folder)


def sweep(parent: Path, prefix: str = WORKERS) -> None:
    """Remove this user's folders of a prefix that no running process has locked."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        if not folder.name.startswith(prefix):
            continue
        with suppress(OSError):  # another user's, locked, or removed meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


@contextmanager
def scratch_file() -> Iterator[Path]:
    """Return a temporary file to write and read back."""
    path = os.environ.get(SCRATCH)
    if path:
        yield Path(path)
        return
    with tempfile.NamedTemporaryFile(prefix="autotune-") as file:  # a folder of its own would take milliseconds more
        yield Path(file.name)
