"""Interface to searches: backends by name, which compete with families for tasks."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from autotune.contrib.backends.backend import BACKENDS
from autotune.core.errors import ScheduleError
from autotune.core.plugs.rivals import OpenRivals
from autotune.plugins import Listing
from autotune.registry import find_point


class Backends:
    """Backends as `Rivals`: names are ``NAME`` or ``NAME:ARGUMENT``."""

    def check(self, names: Sequence[str]) -> None:
        """Check that all backends are installed."""
        for name in names:
            find_point(BACKENDS, "back end", name.partition(":")[0], ScheduleError)

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """Open the backends of a run, in a separate process."""
        from autotune.contrib.backends.generators import open_generators

        return open_generators(names, seconds)


RIVALS = Backends()
LISTING = Listing()  # of backends
