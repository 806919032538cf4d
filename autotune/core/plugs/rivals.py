"""`Rivals`: what competes with schedules for tasks, code of others; and `NO_RIVALS`, where nothing does."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.task import Task


class OpenRivals(Protocol):
    """Those of one run."""

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[Sequence[Family], Sequence[str]]:
        """Each as a search knows it, a family that writes no script but gives a task's code; and notes, a line each.

        Raises:
            ScheduleError: One fails, or two have one name.
            MachineError: Something that one needs is missing.
        """
        ...


class Rivals(Protocol):
    """Code of others in searches: the entry point ``code`` of ``autotune.rivals``.

    Where it is installed `tune` has the option ``--backend``, and bundles that hold code of others are read.
    """

    def check(self, names: Sequence[str]) -> None:
        """Refuse names of what is not installed, before anything is measured.

        Raises:
            ScheduleError: There is no such rival.
        """
        ...

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """Those of a run, until the block ends.

        Args:
            names: Values of ``--backend``.
            seconds: Seconds that generating one task's code may take.
        """
        ...


class NoRivals:
    """What stands in for `Rivals`, and for those of a run, where none is installed."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse any."""
        if names:
            raise ScheduleError(f"back ends need an entry point of autotune.rivals, none is installed for {names[0]}")

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """None."""
        self.check(names)
        return nullcontext(self)

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[Sequence[Family], Sequence[str]]:
        """None."""
        return (), ()


NO_RIVALS = NoRivals()
