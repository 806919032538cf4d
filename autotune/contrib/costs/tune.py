"""Search what a cost function lets choose: its knobs, constraints and seconds; the samplers are those of every search.

    payload --read_program--> facts --CostFunction.open--> ProgramCost --ask, tell--> the best config it knows

Nothing is compiled or run, no store is read or written. A model is cheap to ask, so that half of the configs are spent
on descending from the best that the sampler found, a knob at a time.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from autotune.contrib.costs.cost_function import CostedProgram, CostFunction, ProgramCost
from autotune.contrib.costs.program_facts import read_program
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.space import Config, Value
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.search import DEFAULT, Search
from autotune.worker.loading.reading import bare

QUICK = "tpe"  # the default sampler here: a model takes longer to ask than a config to cost
STARTS = 4  # one config in so many of the sampler's may be one that the search begins with


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


def tune_by_cost(payload: Payload, cost: CostFunction, options: TuneOptions, listener: Listener = SILENT) -> CostTuning:
    """Choose by a cost function.

    Args:
        payload: Payload to choose for.
        cost: What says what a choice costs.
        options: Trials are configs to ask it for, the default first.
        listener: Notified of stages.

    Raises:
        MachineError: The payload does not fit the machine that the cost function models.
        PayloadError: The payload cannot be partitioned.
        SpaceError: There is no such sampler.
    """
    listener.stage("reading the program")
    program = cost.open(CostedProgram(bare(payload), read_program(payload)))
    tried = CostTrials(program, listener)
    sample(program, tried, options)
    descend(program, tried, max(1, options.trials))
    return CostTuning(payload.name, cost.name, program, tried.best, tuple(tried.seconds))


class CostTrials:
    """What was asked for, and the best of it.

    Attributes:
        seconds: Seconds of every config in order; `None` where the machine cannot do it.
        best: Config with the least seconds.
        least: Seconds of that.
    """

    def __init__(self, program: ProgramCost, listener: Listener = SILENT) -> None:
        self.seconds: list[float | None] = []
        self.best: dict[str, Value] = dict(program.default)
        self.least = inf
        self._program, self._listener = program, listener

    def ask(self, config: Config) -> float | None:
        """Seconds of a config, which are kept."""
        found = self._program.seconds(config)
        self.seconds.append(found)
        if found is not None and found < self.least:
            self.best, self.least = dict(config), found
            self._listener.stage(f"{len(self.seconds)} configs, the best {found:.4g} s")
        return found


def sample(program: ProgramCost, tried: CostTrials, options: TuneOptions) -> None:
    """Spend half of the trials on a sampler, which begins with the program's own starts."""
    default, trials = program.default, max(1, options.trials - options.trials // 2)
    starts = [default, *(config for config in program.starts[: trials // STARTS] if config != default)]
    sampler = QUICK if options.sampler == DEFAULT else options.sampler
    search = Search(program.space, default, sampler=sampler, seed=options.seed, starts=starts)
    while len(tried.seconds) < trials and (config := search.ask()) is not None:
        search.tell(config, tried.ask(config))


def descend(program: ProgramCost, tried: CostTrials, trials: int) -> None:
    """Change one knob of the best config after the other, until none helps or the trials are spent."""
    better = True
    while better:
        before = tried.least
        for knob in program.space.knobs:
            for value in knob.values:
                config = {**tried.best, knob.name: value}
                if value != tried.best[knob.name] and program.space.broken_constraint(config) is None:
                    if len(tried.seconds) >= trials:
                        return
                    tried.ask(config)
        better = tried.least < before
