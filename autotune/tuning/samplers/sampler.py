"""Samplers: what to try next, before constraints and repeats are looked at. Optuna's, on studies in memory.

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

# Seconds a call recorded for a config that failed. TPE and CMA-ES only rank, so that any time beyond every real one
# means "worse than the worst"; Optuna's own FAIL state would be ignored, and the same corner proposed again.
FAILED_SECONDS = 1e9

# Random configs before TPE begins to model, as in Optuna.
STARTUP = 10
# Points that TPE compares for one proposal. Optuna's 24 were not measurably better.
CANDIDATES = 12
# TPE's time to ask grows with its history. It forgets all but the best and the latest once it has seen this many.
MOST_REMEMBERED = 100
BEST_KEPT = 20
LATEST_KEPT = 30

# Feature that is the binary logarithm of how many times as long as at its best a config should take by a family's own
# arithmetic: what a model believes before anything was measured.
DELAY = "delay"

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class PriorTrial:
    """A config that was measured before, of another task or by another sweep.

    Attributes:
        features: Features of the config.
        excess: Logarithm of its time over the best of its task; infinite if it failed.
        least: The least `DELAY` among the configs that were measured with it.
    """

    features: Mapping[str, float]
    excess: float
    least: float = 0.0


TransferData = Callable[[Family], Sequence[PriorTrial]]  # of the family whose configs are searched


@dataclass(frozen=True)
class SpaceView:
    """What a sampler may ask of the space that it samples.

    Attributes:
        counts: Number of values of each knob.
        is_open: Whether a config satisfies all constraints and was not proposed yet.
        names: Names of the features.
        describe: Features of a config, in the order of `names`.
        transfer: Configs that were measured before, of other tasks.
    """

    counts: tuple[int, ...]
    is_open: Callable[[Index], bool]
    names: tuple[str, ...] = ()
    describe: Callable[[Index], tuple[float, ...]] = tuple
    transfer: Sequence[PriorTrial] = ()


class Sampler(Protocol):
    """Proposes configs and learns from times. The same seed and the same calls give the same proposals.

    One that has an attribute ``reason`` says there why it made its last proposal.
    """

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """What to try; it may break constraints or repeat itself.

        Args:
            under_way: Configs that are being measured, whose times will be learnt later.
        """
        ...

    def settle(self, index: Index | None) -> None:
        """Be notified of the config near the last proposal that will be tried; `None` if there is none."""
        ...

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record the time of a config, proposed or not.

        Args:
            index: The config.
            seconds: Seconds a call; `FAILED_SECONDS` if it failed.
            cost: Seconds that the trial took; 0 if that is not known.
        """
        ...


@dataclass(frozen=True)
class SamplerKind:
    """A sampler by name: an entry point of ``autotune.samplers``; ``auto`` is what searches take by default.

    Attributes:
        open: Opens it for a space, with a seed.
        line: What it is, in some words.
        takes_transfer: Whether it learns from recorded spaces, and from what a family's arithmetic says beforehand.
    """

    open: Callable[[SpaceView, int], Sampler]
    line: str
    takes_transfer: bool = False


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

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """A random combination."""
        return tuple(self.random.randrange(count) for count in self.counts)

    def settle(self, index: Index | None) -> None:
        """Nothing is learnt."""

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Nothing is learnt."""


class KnownSpaceTpe(TPESampler):
    """TPE that knows its space, where Optuna's compares the distributions of all trials each time."""

    space: dict[str, BaseDistribution]

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The whole space."""
        return self.space


class Tpe:
    """Multivariate tree-structured Parzen estimators (Bergstra et al., NeurIPS 2011), as Optuna has them.

    Every knob is a list of categories: that costs least; lines or integers were no better (docs/decisions/tuning.md).
    A proposal is read from the sampler alone and results are added as finished trials: giving each parameter to
    Optuna's trial costs as much as half of the sampling.
    """

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Sample a space; see `Uniform`."""
        self.counts, self.seed = tuple(counts), seed
        self.random = random.Random(f"sampler {seed}")
        self.recorded: list[FrozenTrial] = []
        self.space: dict[str, BaseDistribution] = {
            str(index): CategoricalDistribution(range(count)) for index, count in enumerate(counts) if count > 1
        }
        self.study = self.new_study()

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """The candidate that looks most like the best so far and least like the rest; random ones at first.

        What is under way counts as slow meanwhile: Optuna's constant liar.
        """
        lies = [self.begin(index) for index in under_way]
        trial = self.study.ask()
        wanted = trial.relative_params or {name: self.random.randrange(self.counts[int(name)]) for name in self.space}
        for number in (trial.number, *lies):  # a proposal
            self.study.tell(number, state=TrialState.FAIL)
        return tuple(wanted.get(str(position), 0) for position in range(len(self.counts)))

    def begin(self, index: Index) -> int:
        """Let the study know of a running trial; gives its number."""
        number = len(self.study.get_trials(deepcopy=False))
        params = {name: index[int(name)] for name in self.space}
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=self.space))
        return number

    def settle(self, index: Index | None) -> None:
        """Nothing to do: configs are learnt, not proposals."""

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Remember a config, and forget old ones when they are many."""
        params = {name: index[int(name)] for name in self.space}
        self.recorded.append(create_trial(params=params, distributions=self.space, value=seconds))
        self.study.add_trial(self.recorded[-1])
        if len(self.recorded) > MOST_REMEMBERED:
            self.forget()

    def forget(self) -> None:
        """Start a new study with the best and the latest results, so that proposing stays cheap."""
        latest, earlier = self.recorded[-LATEST_KEPT:], self.recorded[:-LATEST_KEPT]
        best = sorted(earlier, key=lambda trial: trial.value or 0.0)[:BEST_KEPT]
        self.recorded = best + latest
        self.seed += 1
        self.study = self.new_study()
        self.study.add_trials(self.recorded)

    def new_study(self) -> optuna.Study:
        """A study that knows nothing."""
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
