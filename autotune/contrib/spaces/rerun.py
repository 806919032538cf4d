"""Simulation of searches on a recorded space: the trials of a sampler, with recorded times and costs."""

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
    """Simulated search on a recorded space.

    Attributes:
        seconds: Seconds per call of every trial, in order; infinite for failures.
        costs: Seconds that compiling, verifying and measuring each trial took when it was recorded.
    """

    seconds: tuple[float, ...]
    costs: tuple[float, ...]

    @property
    def bests(self) -> tuple[float, ...]:
        """Seconds per call of the fastest trial so far, after every trial."""
        return tuple(accumulate(self.seconds, min))

    def trials_to(self, seconds: float) -> int:
        """Return the number of trials until one takes at most `seconds`; one more than all trials if none does."""
        return next((n for n, best in enumerate(self.bests, 1) if best <= seconds), len(self.seconds) + 1)

    def cost_to(self, seconds: float) -> float:
        """Return the total cost of the trials until one takes at most `seconds`; of all trials if none does."""
        return sum(self.costs[: self.trials_to(seconds)])


@dataclass(frozen=True)
class Ground:
    """Recording prepared for simulated searches.

    Attributes:
        recording: The recording.
        best: Seconds per call of its fastest config.
        features: Function that returns the features of a config.
        outcomes: Seconds per call and cost of every config, by the values of its knobs.
    """

    recording: Recording
    best: float
    features: Features
    outcomes: dict[tuple[object, ...], tuple[float, float]]

    @classmethod
    def of(cls, recording: Recording) -> "Ground":
        """Index a recording for simulated searches."""
        outcomes: dict[tuple[object, ...], tuple[float, float]] = {}
        for trial in recording.trials:
            values = recording.values_of(trial.config)
            seconds = recording.seconds_of(recording.trials_by_values[values])
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
        """Return a random first config for a search without prior knowledge."""
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
        """Simulate a search.

        Args:
            sampler: Name of the sampler.
            seed: Seed of the sampler and of the first config.
            trials: Maximum number of trials.
            first: Config to begin with; by default a random one.
            transfer: Transfer data from other tasks.
            until: Seconds per call at which the search stops.
        """
        search = Search(
            self.recording.space,
            first or self.anywhere(seed),
            sampler=sampler,
            seed=seed,
            features=self.features,
            transfer=transfer,
        )
        outcomes: list[tuple[float, float]] = []
        while (
            len(outcomes) < trials
            and (not outcomes or outcomes[-1][0] > until)
            and (config := search.ask()) is not None
        ):
            outcomes.append(self.outcomes[self.recording.values_of(config)])
            search.tell(config, *outcomes[-1])
        return Rerun(tuple(seconds for seconds, _ in outcomes), tuple(cost for _, cost in outcomes))
