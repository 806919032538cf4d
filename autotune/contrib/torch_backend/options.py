"""Options of the backend: the ``options`` of `torch.compile`."""

import errno
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from autotune.core.errors import OptionError
from autotune.core.host.cores import MOST_THREADS
from autotune.core.host.files import why_refused
from autotune.core.options import MOST_COUNT, MOST_SECONDS, check_real, check_whole
from autotune.worker.loading.paths import cache


@dataclass(frozen=True)
class BackendOptions:
    """Options of the backend.

    Attributes:
        trials: Candidates of a search that is done before the first call; 0 for the default schedules.
        seconds: Time after which the search of one program ends; `None` for no such limit.
        error: What outputs may be off, of the largest of each; tasks may then round operands. `None`: nothing, or,
            where all outputs are bf16 or f16, a step of that.
        threads: Threads that a program may use.
        store: Folder that programs, bundles and trials are kept in; empty for the user's cache.

    Raises:
        OptionError: An option is out of its range.
    """

    trials: int = 0
    seconds: float | None = None
    error: float | None = None
    threads: int = 1
    store: str = ""

    def __post_init__(self) -> None:
        check_whole("trials", self.trials, 0, MOST_COUNT)
        if self.seconds is not None:
            check_real("seconds", self.seconds, 0.0, MOST_SECONDS, example=60)
        if self.error is not None:
            check_real("error", self.error, 0.0, 1.0, example=0.01)
        check_whole("threads", self.threads, 1, MOST_THREADS)

    @property
    def folder(self) -> Path:
        """Folder that programs are kept in."""
        return Path(self.store) if self.store else cache() / "torch"

    @property
    def search(self) -> dict[str, Any]:
        """The options that a search takes."""
        given = {name: value for name, value in asdict(self).items() if name != "store"}
        return {name: value for name, value in given.items() if value is not None}


def read_options(given: Mapping[str, Any] | None, mode: str | None = None) -> BackendOptions:
    """The options that a user gives to `torch.compile`.

    Args:
        given: Values by name.
        mode: A mode of `torch.compile`, of which the backend knows the default alone.

    Raises:
        OptionError: An option is unknown or out of its range, the store cannot be written, or a mode is asked for.
    """
    names = [each.name for each in fields(BackendOptions)]
    if mode not in (None, "default"):
        raise OptionError(f"backend autotune must be used without a mode, got {mode!r}; give options={{'trials': 100}}")
    if unknown := set(given or {}) - set(names):
        raise OptionError(
            f"options of backend autotune must be among {', '.join(names)}; got {', '.join(map(str, unknown))}"
        )
    values = dict(given or {})
    if "store" in values:
        store = values["store"]
        if not isinstance(store, str | os.PathLike) or "\0" in str(store):
            raise OptionError(f"store of backend autotune must be a path, got {store!r:.80}; name a folder")
        values["store"] = str(store)
        check_store(Path(values["store"]))
    return BackendOptions(**values)


def check_store(folder: Path) -> None:
    """Make the folder that programs are kept in.

    Raises:
        OptionError: The folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise unwritable(folder, why_refused(error)) from error
    if not writable:
        raise unwritable(folder, os.strerror(errno.EACCES))


def unwritable(folder: Path, why: str) -> OptionError:
    """The error of a folder that programs cannot be kept in."""
    return OptionError(
        f"store of backend autotune must be a folder that can be written, {folder} is not: {why}; name another"
    )
