"""Search of a cost function's space with the usual samplers, followed by coordinate descent.

    payload --read_program--> facts --CostFunction.open--> ProgramCost --ask, tell--> the best config it knows

Nothing is compiled or run, and no store is read or written. Evaluations are cheap, so that half of the budget is spent
on coordinate descent from the best config of the sampler.
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

QUICK = "tpe"  # default sampler here: asking a cost model takes longer than evaluating a config
STARTS = 4  # at most one in so many of the sampler's configs is a start config of the program


@dataclass(frozen=True)
class CostTuning:
    """Result of a search with a cost function.

    Attributes:
        payload: Name of the payload.
        cost: Name of the cost function.
        program: Cost model of the program.
        best: Config with the least predicted seconds.
        tried: Predicted seconds of every config in the order of the search, the default first; `None` where it does
            not fit the machine.
    """

    payload: str
    cost: str
    program: ProgramCost
    best: dict[str, Value]
    tried: tuple[float | None, ...]

    @property
    def seconds(self) -> float:
        """Predicted seconds of the best config."""
        return min(each for each in self.tried if each is not None)

    @property
    def gain(self) -> float:
        """Seconds of the default config over those of the best."""
        return (self.tried[0] or self.seconds) / self.seconds

    def to_json(self) -> dict[str, Any]:
        """Return plain data, which states that nothing was measured."""
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
    """Search the configs of a payload with a cost function.

    Args:
        payload: The payload.
        cost: Cost function.
        options: Options of the search, whose trials are evaluations of the cost function.
        listener: Listener of stages.

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
    """Evaluated configs, and the best of them.

    Attributes:
        seconds: Predicted seconds of every config in order; `None` where it does not fit the machine.
        best: Config with the least seconds.
        least: Seconds of the best config.
    """

    def __init__(self, program: ProgramCost, listener: Listener = SILENT) -> None:
        self.seconds: list[float | None] = []
        self.best: dict[str, Value] = dict(program.default)
        self.least = inf
        self._program, self._listener = program, listener

    def ask(self, config: Config) -> float | None:
        """Evaluate a config, and record and return its seconds."""
        seconds = self._program.seconds(config)
        self.seconds.append(seconds)
        if seconds is not None and seconds < self.least:
            self.best, self.least = dict(config), seconds
            self._listener.stage(f"{len(self.seconds)} configs, the best {seconds:.4g} s")
        return seconds


def sample(program: ProgramCost, tried: CostTrials, options: TuneOptions) -> None:
    """Spend half of the trials on a sampler, which starts with the program's own start configs."""
    default, trials = program.default, max(1, options.trials - options.trials // 2)
    starts = [default, *(config for config in program.starts[: trials // STARTS] if config != default)]
    sampler = QUICK if options.sampler == DEFAULT else options.sampler
    search = Search(program.space, default, sampler=sampler, seed=options.seed, starts=starts)
    while len(tried.seconds) < trials and (config := search.ask()) is not None:
        search.tell(config, tried.ask(config))


def descend(program: ProgramCost, tried: CostTrials, trials: int) -> None:
    """Improve the best config by coordinate descent over the knobs, until nothing helps or the trials are spent."""
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
