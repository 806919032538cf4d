"""Search with two objectives, seconds and joules: Optuna's samplers and Pareto front, on in-memory studies."""

import warnings
from collections.abc import Sequence

import optuna
from optuna.distributions import IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import create_trial

from autotune.core.objective import Objective
from autotune.core.trial import Trial
from autotune.tuning.samplers.named_samplers import is_named, named_sampler
from autotune.tuning.samplers.optuna_adapter import Asking
from autotune.tuning.samplers.sampler import FAILED_SECONDS, STARTUP, Index

DIRECTIONS = (StudyDirection.MINIMIZE, StudyDirection.MINIMIZE)


class AskingBoth(Asking):
    """Adapter of an Optuna sampler that minimises seconds and joules."""

    def __init__(self, counts: Sequence[int], name: str, seed: int) -> None:
        """Initialize the sampler for a space.

        Args:
            counts: Number of values of each knob.
            name: ``random``, the name of an Optuna sampler that supports several objectives, or any other for TPE.
            seed: Seed of every random choice.
        """
        space = {str(index): IntDistribution(0, count - 1) for index, count in enumerate(counts) if count > 1}
        super().__init__(counts, sampler_of(name, seed), space)
        self.study = optuna.create_study(directions=DIRECTIONS, sampler=sampler_of(name, seed))

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record a config that failed, or whose energy is unknown, as a failure."""
        self.learn_both(index, FAILED_SECONDS, FAILED_SECONDS)

    def learn_both(self, index: Index, seconds: float, joules: float) -> None:
        """Record a config's seconds and joules."""
        trial = self.pending.pop(index, None)
        if trial is not None:
            self.study.tell(trial, [seconds, joules])
            return
        params = {name: index[int(name)] for name in self.space}
        self.study.add_trial(create_trial(params=params, distributions=self.space, values=[seconds, joules]))


def sampler_of(name: str, seed: int) -> BaseSampler:
    """Return Optuna's multi-objective sampler of a name; by default TPE (Ozaki et al., GECCO 2020)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "random":
            return RandomSampler(seed=seed)
        if name == NSGAIISampler.__name__:
            return NSGAIISampler(seed=seed)
        if name != TPESampler.__name__ and is_named(name):
            return named_sampler(name, seed)
        return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)


def front_of(trials: Sequence[Trial]) -> list[Trial]:
    """Return the Pareto front of seconds and joules, as computed by Optuna; fastest first."""
    measured = [trial for trial in trials if trial.joules is not None and trial.seconds is not None]
    study = optuna.create_study(directions=DIRECTIONS)
    study.add_trials([create_trial(values=[trial.seconds or 0.0, trial.joules or 0.0]) for trial in measured])
    front = [measured[trial.number] for trial in study.best_trials]
    return sorted(front, key=lambda trial: trial.seconds or 0.0)


def finalists_of(trials: Sequence[Trial], objective: Objective, most: int) -> list[Trial]:
    """Return the trials of the Pareto front with the best scores; the fastest trials where no energy is known."""
    front = front_of(trials) or list(trials)
    scores = objective.scores([(trial.seconds or 0.0, trial.joules) for trial in front])
    order = sorted(range(len(front)), key=lambda position: scores[position])
    return [front[position] for position in order[:most]]


def describe_front(name: str, trials: Sequence[Trial]) -> str:
    """Return a sentence on the Pareto front of a task; empty where there is none."""
    front = front_of(trials)
    if not front:
        return ""
    ends = [f"{1e6 * (t.seconds or 0):.4g} us and {1e3 * (t.joules or 0):.4g} mJ" for t in front]
    text = ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"
    return f"{name}: {len(front)} configs on the front of seconds and joules, {text}"
