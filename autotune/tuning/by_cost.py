"""Search what a cost function lets choose: its knobs, its laws, its seconds; the samplers are those of every search.

    payload --read_program--> facts --CostFunction.open--> ProgramCost --ask, tell--> the best config it knows

Nothing is compiled or run, no store is read or written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from autotune.core.cost_function import CostedProgram, CostFunction, Measured, ProgramCost
from autotune.core.errors import MachineError
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.space import Value
from autotune.registry import COSTS, find_point
from autotune.tuning.for_machine import ModelBudget
from autotune.tuning.search import Search
from autotune.worker.analysing import read_program
from autotune.worker.reading import bare

STARTS = 4  # one config in so many may be one that the search begins with


@dataclass(frozen=True)
class CostTuning:
    """What a search by a cost function found.

    Attributes:
        payload: Name of the payload.
        cost: Name of the cost function.
        program: What choices cost.
        best: Config with the least seconds that were met.
        tried: Seconds of every config, the default's first, in the order of the search; `None` where the machine cannot
            do it.
    """

    payload: str
    cost: str
    program: ProgramCost
    best: dict[str, Value]
    tried: tuple[float | None, ...]

    @property
    def seconds(self) -> float:
        """Seconds of the best."""
        return min(each for each in self.tried if each is not None)

    @property
    def gain(self) -> float:
        """Seconds of the default over those of the best."""
        return (self.tried[0] or self.seconds) / self.seconds

    def to_json(self) -> dict[str, Any]:
        """One plain object, which says that nothing was measured."""
        return {
            "payload": self.payload,
            "cost": self.cost,
            "measured": False,
            "config": self.best,
            "default": dict(self.program.default),
            "default_seconds": self.tried[0],
            "configs": len(self.tried),
            "impossible": sum(each is None for each in self.tried),
            "best": self.program.to_json(self.best),
        }


def tune_by_cost(payload: Payload, cost: CostFunction, budget: ModelBudget, listener: Listener = SILENT) -> CostTuning:
    """Choose by a cost function.

    Args:
        payload: Payload to choose for.
        cost: What says what a choice costs.
        budget: Trials are configs to ask it for, the default first.
        listener: Notified of stages.

    Raises:
        MachineError: The payload does not fit the machine that the cost function models.
        PayloadError: The payload cannot be partitioned.
        SpaceError: There is no such sampler.
    """
    listener.stage("reading the program")
    program = cost.open(CostedProgram(bare(payload), read_program(payload)))
    default, trials = program.default, max(1, budget.trials)
    starts = [default, *(config for config in program.starts[: trials // STARTS] if config != default)]
    search = Search(program.space, default, sampler=budget.sampler, seed=budget.seed, starts=starts)
    seconds: list[float | None] = []
    best, least = dict(default), inf
    while len(seconds) < trials and (config := search.ask()) is not None:
        found = program.seconds(config)
        search.tell(config, found)
        seconds.append(found)
        if found is not None and found < least:
            best, least = config, found
            listener.stage(f"{len(seconds)} configs, the best {least:.4g} s")
    return CostTuning(payload.name, cost.name, program, best, tuple(seconds))


def open_cost(spec: str) -> CostFunction | Measured:
    """The cost function that somebody names, ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        MachineError: There is none of that name, or it refuses its argument.
    """
    name, _, argument = spec.partition(":")
    opens = cast(Callable[[str], CostFunction | Measured], find_point(COSTS, "cost", name, MachineError).load())
    try:
        return opens(argument)
    except ValueError as error:
        raise MachineError(str(error)) from error
