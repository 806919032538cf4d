"""`Sampler`: proposes configs, without regard to constraints and duplicates; random and TPE samplers.

A config is an `Index`: the position of every knob's value. Failures are recorded as a time above every real one.
"""

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.core.plugs.family import Family

Index = tuple[int, ...]

# Seconds a call recorded for a failed config. TPE and CMA-ES use ranks only, so any time above every real one means
# "worse than the worst"; trials in Optuna's FAIL state would be ignored, and the same region proposed again.
FAILED_SECONDS = 1e9

# Random configs before TPE builds a model, as in Optuna.
STARTUP = 10
# Candidates of the expected improvement for one proposal. Optuna's 24 were not measurably better.
CANDIDATES = 12
# TPE's time to ask grows with its history: beyond this many trials, all but the best and the latest are dropped.
MOST_REMEMBERED = 100
BEST_KEPT = 20
LATEST_KEPT = 30

# Feature with the binary logarithm of a config's slowdown, relative to the best possible time, that a family's
# analytical model predicts: the prior mean of a cost model.
DELAY = "delay"

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class PriorTrial:
    """A recorded trial of another task or sweep.

    Attributes:
        features: Features of the config.
        excess: Natural logarithm of its time over the best time of its task; infinite if it failed.
        least: Smallest `DELAY` among the configs that were measured with it.
    """

    features: Mapping[str, float]
    excess: float
    least: float = 0.0


TransferData = Callable[[Family], Sequence[PriorTrial]]  # by the family whose configs are searched


@dataclass(frozen=True)
class SpaceView:
    """View of a search space for a sampler.

    Attributes:
        counts: Number of values of each knob.
        is_open: Predicate that returns whether a config satisfies all constraints and was not proposed yet.
        names: Names of the features.
        describe: Function that returns the features of a config, in the order of `names`.
        transfer: Prior trials of other tasks.
    """

    counts: tuple[int, ...]
    is_open: Callable[[Index], bool]
    names: tuple[str, ...] = ()
    describe: Callable[[Index], tuple[float, ...]] = tuple
    transfer: Sequence[PriorTrial] = ()


class Sampler(Protocol):
    """Sampler of configs. It is deterministic: the same seed and the same calls give the same proposals.

    The optional attribute ``reason`` is the `Reason` of the last proposal.
    """

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """Propose a config, which may violate constraints or be a duplicate.

        Args:
            under_way: Configs under evaluation, whose times are not known yet.
        """
        ...

    def settle(self, index: Index | None) -> None:
        """Receive the config that replaces the last proposal and will be tried; `None` if there is none."""
        ...

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record the time of a config, proposed or not.

        Args:
            index: The config.
            seconds: Seconds a call; `FAILED_SECONDS` if it failed.
            cost: Duration of the trial in seconds; 0 if unknown.
        """
        ...


@dataclass(frozen=True)
class SamplerKind:
    """A sampler by name: an entry point of ``autotune.samplers``; ``auto`` is what searches take by default.

    Attributes:
        open: Factory of the sampler, from a view of a space and a seed.
        line: Description in some words.
        takes_transfer: Whether it uses transfer data of recorded spaces and a family's analytical model.
    """

    open: Callable[[SpaceView, int], Sampler]
    line: str
    takes_transfer: bool = False


class Uniform:
    """Sampler of uniform random combinations."""

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Initialize the sampler for a space.

        Args:
            counts: Number of values of each knob.
            seed: Seed of every random choice.
        """
        self.counts = tuple(counts)
        self.random = random.Random(f"sampler {seed}")

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """Propose a random combination."""
        return tuple(self.random.randrange(count) for count in self.counts)

    def settle(self, index: Index | None) -> None:
        """Do nothing."""

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Do nothing."""


class KnownSpaceTpe(TPESampler):
    """TPE with a fixed search space, where Optuna's intersects the distributions of all trials in each ask."""

    space: dict[str, BaseDistribution]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the whole space."""
        return self.space


class Tpe:
    """Sampler with Optuna's multivariate tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011).

    Every knob is a categorical parameter, the fastest choice; integer or float parameters were no better
    (docs/decisions/tuning.md). Proposals are read from the sampler directly, and results are added as finished trials:
    suggesting each parameter through Optuna's trial would cost half as much as the sampling.
    """

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Initialize the sampler for a space; see `Uniform`."""
        self.counts, self.seed = tuple(counts), seed
        self.random = random.Random(f"sampler {seed}")
        self.recorded: list[FrozenTrial] = []
        self.space: dict[str, BaseDistribution] = {
            str(index): CategoricalDistribution(range(count)) for index, count in enumerate(counts) if count > 1
        }
        self.study = self.new_study()

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """Propose the candidate with the largest expected improvement; random configs at first.

        Configs under evaluation count as slow meanwhile: Optuna's constant liar.
        """
        lies = [self.begin(index) for index in under_way]
        trial = self.study.ask()
        params = trial.relative_params or {name: self.random.randrange(self.counts[int(name)]) for name in self.space}
        for number in (trial.number, *lies):  # failed trials are ignored: results are added by `learn`
            self.study.tell(number, state=TrialState.FAIL)
        return tuple(params.get(str(position), 0) for position in range(len(self.counts)))

    def begin(self, index: Index) -> int:
        """Add a running trial to the study, and return its number."""
        number = len(self.study.get_trials(deepcopy=False))
        params = {name: index[int(name)] for name in self.space}
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=self.space))
        return number

    def settle(self, index: Index | None) -> None:
        """Do nothing: results are recorded by config, not by proposal."""

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record the time of a config, and drop old trials when there are many."""
        params = {name: index[int(name)] for name in self.space}
        self.recorded.append(create_trial(params=params, distributions=self.space, value=seconds))
        self.study.add_trial(self.recorded[-1])
        if len(self.recorded) > MOST_REMEMBERED:
            self.forget()

    def forget(self) -> None:
        """Start a new study with the best and the latest trials, which bounds the time of a proposal."""
        latest, earlier = self.recorded[-LATEST_KEPT:], self.recorded[:-LATEST_KEPT]
        best = sorted(earlier, key=lambda trial: trial.value or 0.0)[:BEST_KEPT]
        self.recorded = best + latest
        self.seed += 1
        self.study = self.new_study()
        self.study.add_trials(self.recorded)

    def new_study(self) -> optuna.Study:
        """Return a study without trials."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = KnownSpaceTpe(
                seed=self.seed,
                multivariate=True,
                constant_liar=True,
                n_startup_trials=STARTUP,
                n_ei_candidates=CANDIDATES,
            )
        sampler.space = self.space
        return optuna.create_study(sampler=sampler)
