"""`Rivals`: interface of external code generators that compete with schedules; `NO_RIVALS` stands for none."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.task import Task


class OpenRivals(Protocol):
    """External code generators of one run."""

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[Sequence[Family], Sequence[str]]:
        """Return a family for each generator, which plans external code instead of a script; and notes, a line each.

        Raises:
            ScheduleError: A generator fails, or two have the same name.
            MachineError: A requirement of a generator is missing.
        """
        ...


class Rivals(Protocol):
    """External code generators in searches: the entry point ``code`` of ``autotune.rivals``.

    Where it is installed, `tune` has the option ``--backend``, and bundles with external kernels can be read.
    """

    def check(self, names: Sequence[str]) -> None:
        """Raise unless all named generators are installed; called before anything is measured.

        Raises:
            ScheduleError: There is no such generator.
        """
        ...

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """Open the generators of a run, until the block ends.

        Args:
            names: Values of ``--backend``.
            seconds: Time limit for generating one task's code, in seconds.
        """
        ...


class NoRivals:
    """Stand-in for `Rivals` and `OpenRivals` where none is installed."""

    def check(self, names: Sequence[str]) -> None:
        """Refuse any name."""
        if names:
            raise ScheduleError(f"back ends need an entry point of autotune.rivals, none is installed for {names[0]}")

    def open(self, names: Sequence[str], seconds: float) -> AbstractContextManager[OpenRivals]:
        """Return the object itself; refuse any name."""
        self.check(names)
        return nullcontext(self)

    def families(self, tasks: Sequence[Task], machine: Machine) -> tuple[Sequence[Family], Sequence[str]]:
        """Return no families and no notes."""
        return (), ()


NO_RIVALS = NoRivals()
