"""`CostFunction`: interface of plug-ins that predict the time of a config with a model of a machine.

    payload --tasks, facts--> CostedProgram --CostFunction.open--> ProgramCost: knobs, and what each config costs

Configs are searched by the samplers, and under constraints, of schedules; nothing is run.
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
    """Input of a cost function.

    Attributes:
        payload: The payload, without data.
        facts: Ops of the program with their access patterns and producers.
    """

    payload: Payload
    facts: ProgramFacts


class ProgramCost(Protocol):
    """Predicted costs of the configs of one program."""

    @property
    def space(self) -> Space:
        """Search space of the configs."""
        ...

    @property
    def default(self) -> Config:
        """Good config without any search."""
        ...

    @property
    def starts(self) -> Sequence[Config]:
        """Configs that a search starts with, the most promising first."""
        ...

    def seconds(self, config: Config) -> float | None:
        """Predict the seconds a call of a valid config; return `None` where it does not fit the machine."""
        ...

    def explain(self, config: Config) -> tuple[str, ...]:
        """Describe a config, a sentence each."""
        ...

    def to_json(self, config: Config) -> dict[str, Any]:
        """Describe a config as plain data."""
        ...

    def draw(self, config: Config) -> Mapping[str, Any]:
        """Return matplotlib figures of a config, by name."""
        ...


class CostFunction(Protocol):
    """Model of a machine. Plug-ins register a function that opens one in the entry-point group ``autotune.costs``.

    The function is called with the text after the colon in ``--cost NAME:ARGUMENT``, which may be empty.
    """

    @property
    def name(self) -> str:
        """Name for users and records, including the argument."""
        ...

    def open(self, program: CostedProgram) -> ProgramCost:
        """Return the cost model of a program.

        Raises:
            MachineError: No config fits the machine.
        """
        ...


def open_cost(spec: str) -> CostFunction:
    """Return the cost function of a name, ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        MachineError: There is none of that name, or it refuses its argument.
    """
    name, _, argument = spec.partition(":")
    opens = cast(Callable[[str], CostFunction], load_point(find_point(COSTS, "cost", name, MachineError)))
    try:
        return opens(argument)
    except ValueError as error:
        raise MachineError(str(error)) from error
