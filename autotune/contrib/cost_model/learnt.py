"""Analysis of a cost model that is fitted to recorded trials: importance of features, accuracy, and predictions.

The model is that of the sampler (`model.py`), on all trials of a sweep or a recording. Its accuracy is measured by
leave-one-out predictions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.bundles.reproduce import find_task, rules_in, threads_in
from autotune.contrib.cost_model.gaussian_process import GaussianProcess, Numbers
from autotune.contrib.cost_model.model import FAILED, MOST_REGRET, POWER, regret
from autotune.core.errors import StoreError
from autotune.core.host.machine import Machine, this_machine
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Space, Value
from autotune.core.task import Task
from autotune.core.trial import Trial
from autotune.registry import load_family
from autotune.reports.why import factor_of, rank_of
from autotune.store.recording import is_recording, read_recording
from autotune.store.store import Store
from autotune.store.sweep import Sweep
from autotune.tuning.samplers.features import feature_names, features_of
from autotune.tuning.stages.user_script import own_in

Times = list[tuple[dict[str, Value], float | None]]
FEWEST = 5  # timed trials that a model requires


@dataclass(frozen=True)
class ModelledTrial:
    """One trial with its leave-one-out prediction.

    Attributes:
        config: Value of every knob.
        seconds: Seconds a call; `None` if it failed.
        expected: Seconds a call predicted from the other trials.
    """

    config: dict[str, Value]
    seconds: float | None
    expected: float


@dataclass(frozen=True)
class Alternative:
    """The best config with another value of one knob.

    Attributes:
        knob: Name of the knob.
        value: Other value.
        over_best: Measured or predicted time over that of the best config; `None` where it failed, or violates a
            constraint.
        said: Source of that: ``measured``, ``expected``, ``failed``, or the violated constraint.
    """

    knob: str
    value: Value
    over_best: float | None
    said: str


@dataclass(frozen=True)
class LearntModel:
    """Cost model of one task.

    Attributes:
        payload: Name of the payload.
        task: Readable name of the task.
        importance: Share of each feature in the model's distances between configs, the largest first.
        rank: Rank correlation (Spearman) of leave-one-out predictions and measurements.
        off: Median factor between the two, at least 1.
        trials: Trials, the fastest first.
        alternatives: Variants of the best config with one knob changed.
    """

    payload: str
    task: str
    importance: dict[str, float]
    rank: float | None
    off: float | None
    trials: tuple[ModelledTrial, ...]
    alternatives: tuple[Alternative, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class TaskTimes:
    """Trials of one task, from a store or a recording.

    Attributes:
        payload: Name of the payload.
        task: The task.
        family: Family that schedules it.
        machine: Machine of the measurements.
        space: Search space of the configs.
        times: Configs and their seconds a call; `None` where they failed.
        twins: Configs and times of duplicates.
    """

    payload: str
    task: Task
    family: Family
    machine: Machine
    space: Space
    times: Sequence[tuple[dict[str, Value], float | None]]
    twins: Sequence[tuple[dict[str, Value], float | None]]


def learn_models(location: str | Path, payload: str | None = None) -> list[LearntModel]:
    """Fit a model to each task of a store or a recording; tasks with too few trials are left out.

    Args:
        location: Store or recorded space.
        payload: Name of the payload whose sweeps are used; `None` for all.

    Raises:
        StoreError: The source cannot be read, or no task has enough trials.
        PayloadError: A payload cannot be built here.
    """
    models = [model_of(each) for each in measured_in(location, payload) if enough(each)]
    if not models:
        raise StoreError(f"a model needs {FEWEST} timed trials of a task, none has them in {location}; tune longer")
    return models


def enough(measured: TaskTimes) -> bool:
    """Return whether there are enough timed trials for a model."""
    return sum(seconds is not None for _, seconds in measured.times) >= FEWEST


def measured_in(location: str | Path, payload: str | None) -> Iterator[TaskTimes]:
    """Yield the trials of a store or a recording, task by task."""
    if is_recording(location):
        recording = read_recording(location)
        by_values = recording.trials_by_values
        timed = [
            (trial, recording.seconds_of(by_values[recording.values_of(trial.config)])) for trial in recording.trials
        ]
        family = load_family(recording.family)
        whole = family.space(recording.task, recording.machine)
        space = Space(recording.knobs, whole.constraints, whole.conditions)
        yield TaskTimes(recording.payload, recording.task, family, recording.machine, space, *apart(timed))
        return
    with Store.read(location) as store:
        sweeps = [sweep for sweep in store.sweeps() if payload in (None, sweep.about["payload"]) and sweep.recorded]
    for sweep in sweeps:
        yield measured_of(sweep)


def measured_of(sweep: Sweep) -> TaskTimes:
    """Return the trials of a sweep."""
    about, machine = sweep.about, this_machine(threads_in(sweep.about))
    own = own_in(about)
    task = find_task(str(about["payload"]), str(about["task"]), own, rules_in(about))
    family = own or load_family(sweep.recorded[0].family)
    timed = [(trial, sweep.records.get(trial.twin, trial).seconds) for trial in sweep.trials()]
    return TaskTimes(str(about["payload"]), task, family, machine, family.space(task, machine), *apart(timed))


def apart(timed: Sequence[tuple[Trial, float | None]]) -> tuple[Times, Times]:
    """Separate configs and times of trials from those of duplicates."""
    times: tuple[Times, Times] = ([], [])
    for trial, seconds in timed:
        times[trial.outcome == "duplicate"].append((trial.config, seconds))
    return times


def model_of(measured: TaskTimes) -> LearntModel:
    """Fit a model to the trials of a task."""
    features = features_of(measured.task, measured.family, measured.machine)
    names = feature_names(measured.space, features, measured.times[0][0])

    def rows_of(configs: Sequence[Config]) -> Numbers:
        described = [features(config) for config in configs]
        return np.array([[values.get(name, 0.0) for name in names] for values in described])

    best = min(seconds for _, seconds in measured.times if seconds is not None)
    wanted = np.array([FAILED if s is None else float(regret(np.log(s / best))) for _, s in measured.times])
    process = GaussianProcess.of(rows_of([config for config, _ in measured.times]), wanted)
    expected = seconds_of(process.left_out[:, 0], best)
    trials = [ModelledTrial(config, s, e) for (config, s), e in zip(measured.times, expected, strict=True)]
    pairs = [(each.expected, each.seconds) for each in trials if each.seconds is not None]
    shares = sorted(zip(names, process.importance.tolist(), strict=True), key=lambda pair: -pair[1])
    return LearntModel(
        payload=measured.payload,
        task=measured.task.name,
        importance={name: share for name, share in shares if share > 0},
        rank=rank_of(pairs),
        off=factor_of(pairs),
        trials=tuple(sorted(trials, key=lambda each: each.seconds or np.inf)),
        alternatives=tuple(
            alternatives(measured, best, lambda c: seconds_of(process.expect(rows_of([c]))[0][:, 0], best)[0])
        ),
    )


def alternatives(measured: TaskTimes, best: float, expect: Callable[[Config], float]) -> Iterator[Alternative]:
    """Yield the variants of the best config with one knob changed, each with its measured or predicted time."""
    known = {tuple(config.items()): seconds for config, seconds in (*measured.times, *measured.twins)}
    winner = next(config for config, seconds in measured.times if seconds == best)
    order = list(winner)
    for knob in measured.space.knobs:
        for value in knob.values:
            config = {**winner, knob.name: value}
            if value == winner[knob.name]:
                continue
            broken, key = measured.space.broken_constraint(config), tuple((name, config[name]) for name in order)
            if broken is not None:
                yield Alternative(knob.name, value, None, broken)
            elif key in known:
                seconds = known[key]
                yield Alternative(
                    knob.name, value, seconds / best if seconds else None, "measured" if seconds else "failed"
                )
            else:
                yield Alternative(knob.name, value, expect(config) / best, "expected")


def seconds_of(shares: Numbers, best: float) -> list[float]:
    """Convert predicted regrets to seconds a call, the inverse of `regret`."""
    seconds: list[float] = (best * np.exp(-np.log(1 - np.minimum(shares, MOST_REGRET)) / POWER)).tolist()
    return seconds
