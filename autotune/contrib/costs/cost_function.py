"""Cost functions: what a choice costs; the `CostFunction` that plug-ins are.

    payload --tasks, facts--> CostedProgram --CostFunction.open--> ProgramCost: knobs, and what each config costs

They are models, searched by the same samplers under the same kind of constraints as schedules are; nothing is run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from autotune.core.errors import MachineError
from autotune.core.ops.facts import ProgramFacts
from autotune.core.payload import Payload
from autotune.core.space import Config, Space
from autotune.registry import find_point, load_point

COSTS = "autotune.costs"


@dataclass(frozen=True)
class CostedProgram:
    """A program as a cost function gets it.

    Attributes:
        payload: The payload, without data.
        facts: Ops with what they touch, and where that comes from.
    """

    payload: Payload
    facts: ProgramFacts


class ProgramCost(Protocol):
    """What choices cost for one program."""

    @property
    def space(self) -> Space:
        """What can be chosen."""
        ...

    @property
    def default(self) -> Config:
        """A config that is good without any search."""
        ...

    @property
    def starts(self) -> Sequence[Config]:
        """Configs that a search begins with, the most promising first."""
        ...

    def seconds(self, config: Config) -> float | None:
        """Seconds of a call under a config that satisfies all constraints; `None` where the machine cannot do it."""
        ...

    def explain(self, config: Config) -> tuple[str, ...]:
        """What a config means, a sentence each."""
        ...

    def to_json(self, config: Config) -> dict[str, Any]:
        """What a config means, as plain data."""
        ...

    def draw(self, config: Config) -> Mapping[str, Any]:
        """Figures of matplotlib by name."""
        ...


class CostFunction(Protocol):
    """A model of some machine. Plug-ins register, under ``autotune.costs``, a function that opens one.

    The function is given what follows the colon in ``--cost NAME:ARGUMENT``, a text that may be empty.
    """

    @property
    def name(self) -> str:
        """What records and people know it by, its argument included."""
        ...

    def open(self, program: CostedProgram) -> ProgramCost:
        """What choices cost for a program.

        Raises:
            MachineError: No choice fits the machine.
        """
        ...


def open_cost(spec: str) -> CostFunction:
    """The cost function of a name, ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        MachineError: There is none of that name, or it refuses its argument.
    """
    name, _, argument = spec.partition(":")
    opens = cast(Callable[[str], CostFunction], load_point(find_point(COSTS, "cost", name, MachineError)))
    try:
        return opens(argument)
    except ValueError as error:
        raise MachineError(str(error)) from error
