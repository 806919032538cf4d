"""Searches run again on a recorded space: what a sampler would have found there, and what it would have cost."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from autotune.core.space import Config
from autotune.registry import load_family
from autotune.store.recording import Recording
from autotune.tuning.samplers.features import Features, features_of
from autotune.tuning.samplers.sampler import PriorTrial
from autotune.tuning.samplers.search import Search


@dataclass(frozen=True)
class Rerun:
    """One search on a recorded space.

    Attributes:
        seconds: Seconds a call of every trial, in order; infinite where it failed.
        costs: Seconds that compiling, verifying and measuring each took when it was recorded.
    """

    seconds: tuple[float, ...]
    costs: tuple[float, ...]

    @property
    def bests(self) -> tuple[float, ...]:
        """Seconds a call of the fastest so far, after every trial."""
        return tuple(accumulate(self.seconds, min))

    def trials_to(self, seconds: float) -> int:
        """Trials until one is at least as fast; one more than there were if none is."""
        return next((n for n, best in enumerate(self.bests, 1) if best <= seconds), len(self.seconds) + 1)

    def cost_to(self, seconds: float) -> float:
        """Seconds of trials until one is at least as fast; all of them if none is."""
        return sum(self.costs[: self.trials_to(seconds)])


@dataclass(frozen=True)
class Ground:
    """A recording that searches are run on.

    Attributes:
        recording: What was measured.
        best: Seconds a call of its fastest config.
        features: Gives the features of its configs.
        outcomes: Seconds a call and cost of every config, by the values of its knobs.
    """

    recording: Recording
    best: float
    features: Features
    outcomes: dict[tuple[object, ...], tuple[float, float]]

    @classmethod
    def of(cls, recording: Recording) -> "Ground":
        """A recording, looked at once."""
        outcomes: dict[tuple[object, ...], tuple[float, float]] = {}
        for trial in recording.trials:
            values = recording.values_of(trial.config)
            seconds = recording.seconds_of(recording.found[values])
            outcomes[values] = (seconds or math.inf, sum(trial.phases.values()))
        family = load_family(recording.family)
        features = features_of(recording.task, family, recording.machine)
        known: dict[tuple[object, ...], dict[str, float]] = {}

        def remembered(config: Config) -> dict[str, float]:
            values = recording.values_of(config)
            if values not in known:
                known[values] = dict(features(config))
            return known[values]

        return cls(recording, min(seconds for seconds, _ in outcomes.values()), remembered, outcomes)

    def anywhere(self, seed: int) -> Config:
        """A config that a search without any knowledge begins with."""
        return dict(random.Random(f"anywhere {seed}").choice(self.recording.trials).config)

    def rerun(
        self,
        sampler: str,
        seed: int,
        trials: int,
        *,
        first: Config | None = None,
        transfer: Sequence[PriorTrial] = (),
        until: float = 0.0,
    ) -> Rerun:
        """Search it.

        Args:
            sampler: Name of the sampler.
            seed: Seed of the sampler, and of where it begins.
            trials: Most trials.
            first: Config to begin with; by default any.
            transfer: What is known of other tasks.
            until: Seconds a call with which the search ends.
        """
        search = Search(
            self.recording.space,
            first or self.anywhere(seed),
            sampler=sampler,
            seed=seed,
            features=self.features,
            transfer=transfer,
        )
        found: list[tuple[float, float]] = []
        while len(found) < trials and (not found or found[-1][0] > until) and (config := search.ask()) is not None:
            found.append(self.outcomes[self.recording.values_of(config)])
            search.tell(config, *found[-1])
        return Rerun(tuple(seconds for seconds, _ in found), tuple(cost for _, cost in found))
