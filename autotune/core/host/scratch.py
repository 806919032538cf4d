"""Temporary folders: gone when they close, or, after their process was killed, when the next one is made there.

A process that is killed cannot clean up. It holds a lock on its folder while it lives, which the system drops with it:
a folder without a lock is removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from autotune.core.host.files import SCRATCH

WORKERS = "autotune-worker-"
STARTING = "starting-"  # until its lock is held, lest another process sweeps it


class Scratch:
    """A temporary folder that the next process sweeps away if this one is killed.

    Attributes:
        path: The folder, which may be renamed to where it shall stay.
    """

    def __init__(self, prefix: str = WORKERS, parent: Path | None = None) -> None:
        """Make the folder, and sweep away those of the same prefix whose processes are dead.

        Args:
            prefix: What the names of such folders begin with.
            parent: Folder to make it in; by default the system's for temporary files.

        Raises:
            OSError: The parent is not writable.
        """
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        fresh = Path(tempfile.mkdtemp(prefix=f".{STARTING}{prefix}", dir=parent))
        self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks: nothing there is ever swept
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = fresh.rename(parent / fresh.name.removeprefix(f".{STARTING}"))

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Remove the folder, if it was not renamed, and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def let_go(self) -> None:
        """Leave the folder, and its lock, to the process that we are a fork of."""
        os.close(self._lock)


def sweep(parent: Path, prefix: str = WORKERS) -> None:
    """Remove this user's folders of a prefix that no living process holds."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        if not folder.name.startswith(prefix):
            continue
        with suppress(OSError):  # another user's, a living process's, or gone meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


@contextmanager
def scratch_file() -> Iterator[Path]:
    """A file to write and read back."""
    given = os.environ.get(SCRATCH)
    if given:
        yield Path(given)
        return
    with tempfile.NamedTemporaryFile(prefix="autotune-") as file:  # a folder of its own would cost milliseconds more
        yield Path(file.name)
