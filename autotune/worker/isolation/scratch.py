"""A worker's folder for what its processes write: gone when it closes, or else when a worker or a verb starts.

A tuner that is killed cannot clean up. It holds a lock on its folder while it lives, which the system drops with it: a
folder that nobody holds is swept away.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "autotune-worker-"
UNLOCKED = "autotune-starting-"  # until its lock is held, lest another worker sweeps it


class Scratch:
    """A folder of its own below the system's for temporary files.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Make the folder, and sweep away those of tuners that were killed."""
        sweep(Path(tempfile.gettempdir()))
        fresh = Path(tempfile.mkdtemp(prefix=UNLOCKED))
        self._lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = fresh.rename(fresh.with_name(PREFIX + fresh.name.removeprefix(UNLOCKED)))

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(path: Path) -> None:
    """Remove the folders of this user that no living tuner holds."""
    for folder in path.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, or gone meanwhile
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
