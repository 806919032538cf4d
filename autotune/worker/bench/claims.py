"""Cores that this process measures on: the highest ones on which no other tuner of this user measures.

A tuner holds a lock on a file for each of them while it has a worker, and the system drops it with the process. Two
tuners would otherwise time their candidates on one core, at each other's cost. Where all cores are held, the highest
ones are shared.
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
_held: dict[int, int] = {}  # the descriptor of the file of each core that this process holds
_claims = 0


class CoreClaim(Closing):
    """Cores of this process, of which all its workers share the highest; given back with the last claim.

    Attributes:
        cores: CPUs to measure on, each of a physical core, ascending; as many as were asked for, if there are so many.
        shared: Those of them that another tuner holds, too, or may.
    """

    def __init__(self, threads: int, cores: tuple[int, ...] = ()) -> None:
        """Claim cores.

        Args:
            threads: Number of cores.
            cores: Those that were allotted, if any; then none is claimed.
        """
        global _claims  # noqa: PLW0603 - cores belong to the process
        self._is_closed = bool(cores)
        with _lock:
            _claims += not cores
            self.cores = cores or claim(threads)
            self.shared = () if cores else tuple(core for core in self.cores if core not in _held)

    def close(self) -> None:
        """Give the cores back."""
        global _claims  # noqa: PLW0603
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
            _claims -= 1
            if not _claims:
                while _held:
                    os.close(_held.popitem()[1])


def claim(threads: int) -> tuple[int, ...]:
    """Hold as many cores as can be had, and give those to measure on."""
    found = sorted(physical_cores(), reverse=True)
    folder = own_folder()
    for core in found if folder is not None else ():
        if len(_held) >= threads:
            break
        if core not in _held and folder is not None and (descriptor := lock_of(folder / str(core))) is not None:
            _held[core] = descriptor
    mine = [core for core in found if core in _held][:threads]
    shared = [core for core in found if core not in mine][: threads - len(mine)]
    return tuple(sorted((*mine, *shared)))


def own_folder() -> Path | None:
    """This user's folder of locks; `None` where it cannot be made, or is another user's."""
    folder = Path(tempfile.gettempdir()) / f"{PREFIX}{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if status.st_uid == os.geteuid() and not folder.is_symlink():
            return folder
    return None


def lock_of(path: Path) -> int | None:
    """A descriptor that holds the lock of a file; `None` where another process does."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def let_go() -> None:
    """Leave the cores to the process that we are a fork of, which would else hold them until we end, too."""
    global _lock, _claims
    _lock, _claims = Lock(), 0  # another thread of that process may have had the lock
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=let_go)
