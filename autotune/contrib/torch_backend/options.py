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
        trials: Candidates of a search before the first call; 0 for the default schedules.
        seconds: Time after which the search of one program ends; `None` for no such limit.
        error: Allowed error of outputs, relative to the largest element of each; tasks may then round operands.
            `None`: the machine epsilon if all outputs are bf16 or f16, otherwise 0.
        threads: Threads that a program may use.
        store: Folder of programs, bundles and trials; empty for the user's cache.

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
        """Folder of cached programs."""
        return Path(self.store) if self.store else cache() / "torch"

    @property
    def search(self) -> dict[str, Any]:
        """Options of a search."""
        options = {name: value for name, value in asdict(self).items() if name != "store"}
        return {name: value for name, value in options.items() if value is not None}


def read_options(options: Mapping[str, Any] | None, mode: str | None = None) -> BackendOptions:
    """Read the options that a user passes to `torch.compile`.

    Args:
        options: Values by name.
        mode: Mode of `torch.compile`; only the default is supported.

    Raises:
        OptionError: An option is unknown or out of its range, the store cannot be written, or a mode is requested.
    """
    names = [each.name for each in fields(BackendOptions)]
    if mode not in (None, "default"):
        raise OptionError(f"backend autotune must be used without a mode, got {mode!r}; give options={{'trials': 100}}")
    if unknown := set(options or {}) - set(names):
        raise OptionError(
            f"options of backend autotune must be among {', '.join(names)}; got {', '.join(map(str, unknown))}"
        )
    values = dict(options or {})
    if "store" in values:
        store = values["store"]
        if not isinstance(store, str | os.PathLike) or "\0" in str(store):
            raise OptionError(f"store of backend autotune must be a path, got {store!r:.80}; name a folder")
        values["store"] = str(store)
        check_store(Path(values["store"]))
    return BackendOptions(**values)


def check_store(folder: Path) -> None:
    """Create the folder of cached programs.

    Raises:
        OptionError: The folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise unwritable(folder, why_refused(error)) from error
    if not writable:
        raise unwritable(folder, os.strerror(errno.EACCES))


def unwritable(folder: Path, reason: str) -> OptionError:
    """Return the error of a store that cannot be written."""
    return OptionError(
        f"store of backend autotune must be a folder that can be written, {folder} is not: {reason}; name another"
    )
