"""The feature as searches know it: back ends by name, which compete for tasks."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from autotune.contrib.backends.backend import BACKENDS
from autotune.core.errors import ScheduleError
from autotune.core.plugs.rivals import OpenRivals
from autotune.plugins import Listing
from autotune.registry import find_point


class Backends:
    """Back ends as `Rivals`: names are ``NAME`` or ``NAME:ARGUMENT``."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse a back end that is not installed."""
        for name in names:
            find_point(BACKENDS, "back end", name.partition(":")[0], ScheduleError)

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """The back ends of a run, in a process of their own."""
        from autotune.contrib.backends.generators import open_generators

        return open_generators(names, seconds)


RIVALS = Backends()
LISTING = Listing()  # of back ends
