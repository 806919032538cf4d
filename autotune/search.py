"""Ask and tell over an Optuna sampler, on a study in memory: which config to try next.

Optuna has no hard constraints and repeats itself, so a proposal that is not new or not valid is moved to a config
near by that is, by a random walk over its knobs; what is measured there is what the sampler learns. On a synthetic
GEMM-like space of 1.4 million configs, 39 % of them valid, the best of 100 trials reached this part of the
optimum (median, then mean, of 30 seeds): tpe 0.92 (0.90 +- 0.01), cmaes 0.89 (0.89 +- 0.01), random 0.80
(0.81 +- 0.01). Real spaces may rank the samplers differently.
"""

import importlib.util
import math
import random
import warnings
from collections.abc import Iterator

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.trial import TrialState, create_trial

from autotune.errors import MachineError, SpaceError
from autotune.space import Config, Knob, Space, Value

SAMPLERS = ("tpe", "random", "cmaes", "grid")

# Seconds a call told for a config that failed. TPE and CMA-ES only rank, so that any time beyond every real one
# means "worse than the worst"; Optuna's own FAIL state would be ignored, and the same corner proposed again.
FAILED_SECONDS = 1e9
# Points that TPE compares for one proposal. Optuna's 24 cost a fifth more time and were not measurably better.
CANDIDATES = 12
# TPE's time to ask grows with its history. It forgets all but the best and the latest once it has seen this many.
MOST_REMEMBERED = 160
BEST_KEPT = 40
LATEST_KEPT = 60
# Neighbours tried for one proposal, a knob further away every ten.
WALKS = 100
# Up to this many combinations, what the sampler no longer finds is enumerated; beyond, drawn at random so often.
MOST_ENUMERATED = 200_000
DRAWS = 20_000

optuna.logging.set_verbosity(optuna.logging.WARNING)

Index = tuple[int, ...]  # position of every knob's value


class Search:
    """One search of one space. The same seed and the same tells give the same asks.

    Attributes:
        rejected: Proposals that were turned down, by reason: ``duplicate``, ``constraint``.
    """

    def __init__(self, space: Space, default: Config, *, sampler: str = "tpe", seed: int = 0) -> None:
        """Start a search that asks for `default` first.

        Args:
            space: Knobs and constraints.
            default: A valid config.
            sampler: One of `SAMPLERS`.
            seed: Of every random choice.

        Raises:
            SpaceError: The sampler is unknown, or the default is not a valid config.
            MachineError: The sampler's package is missing.
        """
        if sampler not in SAMPLERS:
            raise SpaceError(f"sampler must be one of {', '.join(SAMPLERS)}; got {sampler!r}")
        if sampler == "cmaes" and importlib.util.find_spec("cmaes") is None:
            raise MachineError("sampler cmaes needs the package cmaes, which is missing; pip install cmaes")
        space.check(default)
        if law := space.broken_law(default):
            raise SpaceError(f"default config must obey: {law}; got {dict(default)}; choose another default")
        self.rejected = {"duplicate": 0, "constraint": 0}
        self._space, self._sampler, self._seed = space, sampler, seed
        self._default = self._index(default)
        self._random = random.Random(seed)
        self._seen: set[Index] = set()
        self._told: list[tuple[Index, float]] = []
        self._pending: dict[Index, optuna.Trial] = {}
        self._rest = self._enumerate()
        self._exhausted = False
        self._distributions = {k.name: distribution(k, sampler) for k in space.knobs if len(k.values) > 1}
        self._start_study()

    def ask(self) -> dict[str, Value] | None:
        """The next config, never asked or told before; `None` when there is none left."""
        if self._default not in self._seen:
            return self._give(self._default)
        if self._exhausted:
            return None
        found = None if self._sampler == "grid" else self._propose()
        if found is None:
            found = next(self._rest, None)
        self._exhausted = found is None
        return self._give(found) if found is not None else None

    def tell(self, config: Config, seconds: float | None) -> None:
        """Teach the sampler what became of a config, also one it never asked for, as when a search is resumed.

        Args:
            config: Value of every knob.
            seconds: Seconds a call; `None` if it failed, which counts as slower than anything measured.

        Raises:
            SpaceError: The config is not one of the space.
        """
        self._space.check(config)
        index = self._index(config)
        self._seen.add(index)
        value = seconds if seconds is not None and math.isfinite(seconds) else FAILED_SECONDS
        trial = self._pending.pop(index, None)
        if trial is not None:
            self._study.tell(trial, value)
        elif self._sampler in ("tpe", "cmaes"):
            self._remember(index, value)
        if self._sampler == "tpe":
            self._told.append((index, value))
            if len(self._told) > MOST_REMEMBERED:
                self._forget()

    def _start_study(self) -> None:
        """Begin with a sampler that knows nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler: BaseSampler = RandomSampler(seed=self._seed)
            if self._sampler == "tpe":
                sampler = TPESampler(seed=self._seed, multivariate=True, n_ei_candidates=CANDIDATES)
            elif self._sampler == "cmaes":
                sampler = CmaEsSampler(seed=self._seed, warn_independent_sampling=False)
        self._study = optuna.create_study(sampler=sampler)

    def _forget(self) -> None:
        """Start a new study with the best and the latest of what was told, so that asking stays cheap."""
        latest, earlier = self._told[-LATEST_KEPT:], self._told[:-LATEST_KEPT]
        best = sorted(earlier, key=lambda told: told[1])[:BEST_KEPT]
        self._told = best + latest
        self._seed += 1
        self._pending.clear()  # they belong to the study that ends here
        self._start_study()
        for index, value in self._told:
            self._remember(index, value)

    def _remember(self, index: Index, value: float) -> None:
        """Put a finished config into the study."""
        self._study.add_trial(create_trial(params=self._params(index), distributions=self._distributions, value=value))

    def _propose(self) -> Index | None:
        """What the sampler wants, or a new and valid neighbour of it; `None` if there is none near by."""
        trial = self._study.ask(self._distributions)
        params = trial.params  # a deep copy each time it is asked for
        wanted = tuple(
            position(params[k.name], len(k.values)) if k.name in self._distributions else 0 for k in self._space.knobs
        )
        found = self._nearest(wanted)
        if found is not None and (found == wanted or self._sampler == "cmaes"):
            self._pending[found] = trial  # CMA-ES counts only trials that it asked for itself in a generation
        else:
            self._study.tell(trial, state=TrialState.FAIL)  # a proposal; what is told is what is remembered
        return found

    def _nearest(self, wanted: Index) -> Index | None:
        """The first new and valid config on random walks of growing length from `wanted`."""
        reason = self._reason(wanted)
        if reason is None:
            return wanted
        self.rejected[reason] += 1
        for walk in range(WALKS):
            index = list(wanted)
            for _ in range(1 + walk // 10):
                self._step(index)
            if self._reason(tuple(index)) is None:
                return tuple(index)
        return None

    def _step(self, index: list[int]) -> None:
        """Move one knob: an ordered one to the next value up or down, another one anywhere."""
        place = self._random.randrange(len(index)) if index else 0
        for knob in self._space.knobs[place : place + 1]:
            last = len(knob.values) - 1
            moved = index[place] + self._random.choice((-1, 1)) if is_ordered(knob) else self._random.randint(0, last)
            index[place] = min(max(moved, 0), last)

    def _enumerate(self) -> Iterator[Index]:
        """Every config that is new and valid, in random order; of a huge space, random ones."""
        size = self._space.size
        small = size <= MOST_ENUMERATED
        numbers = self._random.sample(range(size), size) if small else iter(self._draws(size))
        for number in numbers:
            index = self._unravel(number)
            reason = self._reason(index)
            if reason is None:
                yield index
            elif self._sampler == "grid":
                self.rejected[reason] += 1

    def _draws(self, size: int) -> Iterator[int]:
        """Random numbers below `size`, until so many in a row led to nothing new."""
        fruitless, before = 0, -1
        while fruitless < DRAWS:
            fruitless = fruitless + 1 if len(self._seen) == before else 0
            before = len(self._seen)
            yield self._random.randrange(size)

    def _reason(self, index: Index) -> str | None:
        """Why a config must not be asked for; `None` if it may."""
        if index in self._seen:
            return "duplicate"
        return "constraint" if self._space.broken_law(self._config(index)) is not None else None

    def _give(self, index: Index) -> dict[str, Value]:
        self._seen.add(index)
        return self._config(index)

    def _config(self, index: Index) -> dict[str, Value]:
        return {knob.name: knob.values[i] for knob, i in zip(self._space.knobs, index, strict=True)}

    def _index(self, config: Config) -> Index:
        return tuple(knob.values.index(config[knob.name]) for knob in self._space.knobs)

    def _params(self, index: Index) -> dict[str, float]:
        """A config as the study knows it: positions, of the knobs that have a choice."""
        pairs = zip(self._space.knobs, index, strict=True)
        return {knob.name: i for knob, i in pairs if knob.name in self._distributions}

    def _unravel(self, number: int) -> Index:
        """The config at a place in the enumeration of all combinations, last knob fastest."""
        index = []
        for knob in reversed(self._space.knobs):
            number, i = divmod(number, len(knob.values))
            index.append(i)
        return tuple(reversed(index))


def is_ordered(knob: Knob) -> bool:
    """Tell whether a knob's values lie on a line: integers, at least three."""
    return len(knob.values) > 2 and all(type(value) is int for value in knob.values)


def distribution(knob: Knob, sampler: str) -> BaseDistribution:
    """Positions of a knob's values: on a line if ordered (CMA-ES knows nothing else), else as categories.

    A continuous line, rounded: Optuna's integer one costs TPE about 1.6 times as much. Line, integers and plain
    categories came out within noise on that space (0.86, 0.85 and 0.84 +- 0.01, mean at 20, 40, 70 and 100 trials).
    """
    if sampler == "cmaes" or is_ordered(knob):
        return FloatDistribution(-0.5, len(knob.values) - 0.5)
    return CategoricalDistribution(range(len(knob.values)))


def position(value: float, count: int) -> int:
    """The position that a point on the line rounds to."""
    return min(max(math.floor(value + 0.5), 0), count - 1)
