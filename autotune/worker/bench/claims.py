"""Claims of cores to measure on: the highest cores that no other tuner of this user has claimed.

Two tuners that time candidates on the same core would disturb each other. A tuner therefore holds a file lock for each
of its cores while it has a worker; the system releases it with the process. If all cores are claimed, the highest ones
are shared.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock

from autotune.core.host.closing import Closing
from autotune.core.host.cores import physical_cores

PREFIX = "autotune-cores-"

_lock = Lock()
_locked: dict[int, int] = {}  # descriptor of the lock file of each core that this process has claimed
_claims = 0


class CoreClaim(Closing):
    """Claim of cores, shared by all workers of this process; the locks are released with the last claim.

    Attributes:
        cores: CPUs to measure on, one per physical core, ascending; fewer than requested if the machine has fewer.
        shared: CPUs among them that this process could not lock, since another tuner may use them.
    """

    def __init__(self, threads: int, cores: tuple[int, ...] = ()) -> None:
        """Claim cores.

        Args:
            threads: Number of cores.
            cores: CPUs assigned by the caller, if any; then no core is locked.
        """
        global _claims  # noqa: PLW0603 - cores belong to the process
        self._is_closed = bool(cores)
        with _lock:
            _claims += not cores
            self.cores = cores or claim(threads)
            self.shared = () if cores else tuple(core for core in self.cores if core not in _locked)

    def close(self) -> None:
        """Release the claim; the last one of the process releases the locks."""
        global _claims  # noqa: PLW0603
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
            _claims -= 1
            if not _claims:
                while _locked:
                    os.close(_locked.popitem()[1])


def claim(threads: int) -> tuple[int, ...]:
    """Lock up to `threads` cores, and return the CPUs to measure on, shared ones included."""
    cores = sorted(physical_cores(), reverse=True)
    folder = own_folder()
    for core in cores if folder is not None else ():
        if len(_locked) >= threads:
            break
        if core not in _locked and folder is not None and (descriptor := lock_of(folder / str(core))) is not None:
            _locked[core] = descriptor
    locked = [core for core in cores if core in _locked][:threads]
    shared = [core for core in cores if core not in locked][: threads - len(locked)]
    return tuple(sorted((*locked, *shared)))


def own_folder() -> Path | None:
    """Return this user's folder of lock files; `None` if it cannot be created or belongs to another user."""
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if status.st_uid == os.geteuid() and not folder.is_symlink():
            return folder
    return None


def lock_of(path: Path) -> int | None:
    """Lock a file and return its descriptor; `None` if another process holds the lock."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def detach() -> None:
    """Drop all claims in a fork: its copies of the descriptors would keep the parent's locks until it exits."""
    global _lock, _claims
    _lock, _claims = Lock(), 0  # another thread of the parent may have held the lock
    while _locked:
        os.close(_locked.popitem()[1])


os.register_at_fork(after_in_child=detach)
