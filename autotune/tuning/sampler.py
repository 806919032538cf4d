"""Samplers: what to try next, before laws and repeats are looked at. Optuna's, on studies in memory.

A config is an `Index`: the position of every knob's value. Failures are told as a time beyond every real one.
"""

import importlib.util
import math
import random
import warnings
from collections.abc import Sequence
from typing import Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import CmaEsSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.core.errors import MachineError

Index = tuple[int, ...]

# Random configs before TPE begins to model, as in Optuna.
STARTUP = 10
# Points that TPE compares for one proposal. Optuna's 24 were not measurably better.
CANDIDATES = 12
# TPE's time to ask grows with its history. It forgets all but the best and the latest once it has seen this many.
MOST_REMEMBERED = 100
BEST_KEPT = 20
LATEST_KEPT = 30

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Sampler(Protocol):
    """Proposes configs and learns from times. The same seed and the same calls give the same proposals."""

    def propose(self) -> Index:
        """What to try; it may break laws or repeat itself."""
        ...

    def settle(self, index: Index | None) -> None:
        """Be notified of the config near the last proposal that will be tried; `None` if there is none."""
        ...

    def learn(self, index: Index, seconds: float) -> None:
        """Record the time of a config, proposed or not."""
        ...


class Uniform:
    """Every combination is as likely as any other."""

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Sample a space.

        Args:
            counts: Number of values of each knob.
            seed: Seed of every random choice.
        """
        self.counts = tuple(counts)
        self.random = random.Random(f"sampler {seed}")

    def propose(self) -> Index:
        """A random combination."""
        return tuple(self.random.randrange(count) for count in self.counts)

    def settle(self, index: Index | None) -> None:
        """Nothing is learnt."""

    def learn(self, index: Index, seconds: float) -> None:
        """Nothing is learnt."""


class KnownSpaceTpe(TPESampler):
    """TPE that is told its space, where Optuna's compares the distributions of all trials each time."""

    space: dict[str, BaseDistribution]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The whole space."""
        return self.space


class Tpe:
    """Multivariate tree-structured Parzen estimators (Bergstra et al., NeurIPS 2011), as Optuna has them.

    Every knob is a list of categories: that costs least; lines or integers were no better (docs/decisions/tuning.md).
    A proposal is read from the sampler alone and what was told is added as finished trials: giving each parameter to
    Optuna's trial costs as much as half of the sampling.
    """

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Sample a space; see `Uniform`."""
        self.counts, self.seed = tuple(counts), seed
        self.random = random.Random(f"sampler {seed}")
        self.told: list[FrozenTrial] = []
        self.space: dict[str, BaseDistribution] = {
            str(place): CategoricalDistribution(range(count)) for place, count in enumerate(counts) if count > 1
        }
        self.study = self.new_study()

    def propose(self) -> Index:
        """The candidate that looks most like the best so far and least like the rest; random ones at first."""
        trial = self.study.ask()
        wanted = trial.relative_params or {name: self.random.randrange(self.counts[int(name)]) for name in self.space}
        self.study.tell(trial, state=TrialState.FAIL)  # a proposal; what is told is what is remembered
        return tuple(wanted.get(str(place), 0) for place in range(len(self.counts)))

    def settle(self, index: Index | None) -> None:
        """Nothing to do: configs are learnt, not proposals."""

    def learn(self, index: Index, seconds: float) -> None:
        """Remember a config, and forget old ones when they are many."""
        params = {name: index[int(name)] for name in self.space}
        self.told.append(create_trial(params=params, distributions=self.space, value=seconds))
        self.study.add_trial(self.told[-1])
        if len(self.told) > MOST_REMEMBERED:
            self.forget()

    def forget(self) -> None:
        """Start a new study with the best and the latest of what was told, so that asking stays cheap."""
        latest, earlier = self.told[-LATEST_KEPT:], self.told[:-LATEST_KEPT]
        best = sorted(earlier, key=lambda trial: trial.value or 0.0)[:BEST_KEPT]
        self.told = best + latest
        self.seed += 1
        self.study = self.new_study()
        self.study.add_trials(self.told)

    def new_study(self) -> optuna.Study:
        """A study that knows nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = KnownSpaceTpe(
                seed=self.seed,
                multivariate=True,
                constant_liar=False,
                n_startup_trials=STARTUP,
                n_ei_candidates=CANDIDATES,
            )
        sampler.space = self.space
        return optuna.create_study(sampler=sampler)


class CmaEs:
    """Covariance matrix adaptation. Knows nothing but lines: positions are rounded."""

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Sample a space; see `Uniform`.

        Raises:
            MachineError: The package cmaes is missing.
        """
        if importlib.util.find_spec("cmaes") is None:
            raise MachineError("sampler cmaes needs the package cmaes, which is missing; pip install cmaes")
        self.counts = tuple(counts)
        self.space: dict[str, BaseDistribution] = {
            str(place): FloatDistribution(-0.5, count - 0.5) for place, count in enumerate(counts) if count > 1
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = CmaEsSampler(seed=seed, warn_independent_sampling=False)
        self.study = optuna.create_study(sampler=sampler)
        self.proposed: optuna.Trial | None = None
        self.pending: dict[Index, optuna.Trial] = {}

    def propose(self) -> Index:
        """A point of the current generation, rounded."""
        self.proposed = self.study.ask(self.space)
        params = self.proposed.params
        return tuple(position(params.get(str(place), 0.0), count) for place, count in enumerate(self.counts))

    def settle(self, index: Index | None) -> None:
        """Expect the time of a config near by: a generation counts only trials that were asked for."""
        if self.proposed is None:
            raise RuntimeError("a config must be proposed before it is settled, none was")
        if index is None:
            self.study.tell(self.proposed, state=TrialState.FAIL)
        else:
            self.pending[index] = self.proposed

    def learn(self, index: Index, seconds: float) -> None:
        """Give the time to the trial that asked for it."""
        trial = self.pending.pop(index, None)
        if trial is not None:
            self.study.tell(trial, seconds)
            return
        params = {name: float(index[int(name)]) for name in self.space}
        self.study.add_trial(create_trial(params=params, distributions=self.space, value=seconds))


def position(value: float, count: int) -> int:
    """The position that a point on the line rounds to."""
    return min(max(math.floor(value + 0.5), 0), count - 1)
