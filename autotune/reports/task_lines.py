"""Summary lines of tasks: time of the chosen config, its speed-up, and its differences from the default config."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import pandas as pd

from autotune.core.space import Config, Value
from autotune.core.stats import Interval
from autotune.core.winner_time import winner_time
from autotune.registry import roof_of_family
from autotune.reports.holdings import Holdings
from autotune.reports.overview import changed_knobs, config_of, in_order
from autotune.reports.task_facts import TaskFacts, facts_of_bundle
from autotune.store.bundle import BundleFiles
from autotune.store.frames import KNOB
from autotune.store.sessions import recorded_quiet


@dataclass(frozen=True)
class TaskLine:
    """One task of a bundle, or of a store's sweeps.

    Attributes:
        number: Number of the line in the bundle or the store, from 1.
        payload: Name of the payload.
        tag: Tag of the task.
        name: Readable name, with the number of the sweep if a store has several of the task.
        family: Name of the family; `None` for the plain lowering.
        config: Value of every knob; `None` for the plain lowering, or if no trial succeeded.
        default: Default config of the family; `None` if unknown.
        choices: Possible values of each knob; empty if not recorded.
        count: Number of executions in one call of the payload; `None` if unknown.
        seconds: Time of one execution of the single task in seconds; `None` if not measured.
        roof_fraction: Share of the roof of its unit; `None` if the task has no contraction, or a rate is unknown.
        over_default: Time of the default config over time of this one, both in the search; `None` if not measured.
        over_baseline: Time of the baseline over time of this one; `None` if not measured.
        trials: Known trials of this task, one row each.
        note: Sentence on the reason for the choice if it is not simply the fastest.
    """

    number: int
    payload: str
    tag: str
    name: str
    family: str | None
    config: Config | None
    default: Config | None
    choices: Mapping[str, Sequence[Value]]
    count: int | None
    seconds: Interval | None
    roof_fraction: float | None
    over_default: float | None
    over_baseline: float | None
    trials: pd.DataFrame = field(repr=False)
    note: str = ""

    @property
    def call_seconds(self) -> float | None:
        """Seconds of all its executions in one call of the payload; `None` if unknown."""
        return self.count * self.seconds.estimate if self.count and self.seconds else None

    @property
    def changed(self) -> tuple[str, ...]:
        """Knobs whose value differs from the default's, in the order of the config."""
        return changed_knobs(self.config or {}, self.default) if self.default is not None else ()


def lines_of_bundle(bundle: BundleFiles, holdings: Holdings | None = None) -> list[TaskLine]:
    """Return a line for every task of a bundle, in order; only trials with its machine and compiler are used."""
    facts = facts_of_bundle(bundle)
    trials = of_bundle(bundle, holdings.frame) if holdings is not None else None
    return [
        line_of_task(bundle, number, tag, facts[tag], trials[trials["task"] == tag] if trials is not None else None)
        for number, tag in enumerate(bundle.manifest.tasks, 1)
    ]


def line_of_task(bundle: BundleFiles, number: int, tag: str, fact: TaskFacts, trials: pd.DataFrame | None) -> TaskLine:
    """Return the line of one task of a bundle."""
    data, task = bundle.manifest, bundle.manifest.tasks[tag]
    trials = pd.DataFrame() if trials is None else trials
    timed = winner_time(task.seconds, task.reference_seconds, recorded_quiet(data)) if task.seconds else None
    each = timed.seconds.estimate if timed else None
    family = task.schedule if task.config is not None else None
    return TaskLine(
        number=number,
        payload=data.payload,
        tag=tag,
        name=fact.name,
        family=family,
        config=task.config,
        default=fact.default,
        choices=task.knobs,
        count=task.count,
        seconds=timed.seconds if timed else None,
        roof_fraction=share_of(fact.flops, each, roof_of_family(family or "", data.roofs)),
        over_default=gain_over_default(trials, task.config, fact.default),
        over_baseline=task.baseline_seconds / timed.clock.estimate if task.baseline_seconds and timed else None,
        trials=trials,
        note=task.note,
    )


def of_bundle(bundle: BundleFiles, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a bundle's payload, machine and compiler."""
    data = bundle.manifest
    here = (frame["machine"] == data.fingerprint) & (frame["compiler"] == data.versions.compiler)
    return frame[here & (frame["payload"] == data.payload)]


def lines_of_store(holdings: Holdings, facts: Mapping[tuple[str, str], TaskFacts]) -> list[TaskLine]:
    """Return a line for every combination of payload, task, machine and compiler in a store, oldest first.

    Args:
        holdings: Contents of the store.
        facts: Facts of its tasks, as returned by `facts_of_store`.
    """
    groups = holdings.frame.groupby(["payload", "task", "machine", "compiler"], sort=False)
    lines = [
        line_of_sweep(number, rows, facts[str(payload), str(tag)], holdings)
        for number, ((payload, tag, _, _), rows) in enumerate(groups, 1)
    ]
    sweeps = Counter((line.payload, line.tag) for line in lines)
    seen: Counter[tuple[str, str]] = Counter()
    for position, line in enumerate(lines):
        key = line.payload, line.tag
        seen[key] += 1
        if sweeps[key] > 1:
            lines[position] = replace(line, name=f"{line.name}, sweep {seen[key]} of {sweeps[key]}")
    return lines


def newest(lines: Sequence[TaskLine]) -> list[TaskLine]:
    """Return the lines of the latest sweep of each task."""
    last = {(line.payload, line.tag): line for line in lines}
    return [line for line in lines if last[line.payload, line.tag] is line]


def line_of_sweep(number: int, rows: pd.DataFrame, fact: TaskFacts, holdings: Holdings) -> TaskLine:
    """Return the line of one sweep, by its fastest trial; drift is divided out of the share of the roof."""
    right = rows[rows["outcome"] == "ok"].nsmallest(1, "seconds_normalised")
    best = next((row for _, row in right.iterrows()), None)
    recorded = holdings.defaults.get(str(rows["sweep"].iloc[-1]))
    default = recorded.config if recorded is not None else fact.default
    config = in_order(config_of(best), default or {}) if best is not None else None
    median = float(best["seconds_median"]) if best is not None else None
    steady = float(best["seconds_normalised"]) if best is not None else None
    flops = fact.flops
    if fact.count is None and best is not None and isfinite(best["gflops"]):
        flops = float(best["gflops"] * 1e9 * best["seconds_median"])
    family = str(rows["family"].iloc[-1])
    roof = roof_of_family(family, holdings.roofs.known) if holdings.roofs else None
    return TaskLine(
        number=number,
        payload=str(rows["payload"].iloc[0]),
        tag=str(rows["task"].iloc[0]),
        name=fact.name,
        family=family,
        config=config,
        default=default,
        choices={},
        count=fact.count,
        seconds=Interval(median, median, median) if median else None,
        roof_fraction=share_of(flops, steady, roof),
        over_default=gain_over_default(rows, config, default),
        over_baseline=None,
        trials=rows,
    )


def share_of(flops: float | None, seconds: float | None, roof: float | None) -> float | None:
    """Return the share of a roof, given in operations per second; `None` if an argument is unknown."""
    return flops / seconds / roof if flops and seconds and roof else None


def gain_over_default(trials: pd.DataFrame, config: Config | None, default: Config | None) -> float | None:
    """Return the time of the default config over that of another, by their best trials, drift divided out.

    Returns:
        Ratio of times, 1 if both configs are equal; `None` if either is unknown or has no successful trial.
    """
    if config is None or default is None:
        return None
    if not changed_knobs(config, default):
        return 1.0
    ours, theirs = seconds_with(trials, config), seconds_with(trials, default)
    return theirs / ours if ours and theirs else None


def seconds_with(trials: pd.DataFrame, config: Config) -> float | None:
    """Return the best time of the trials with exactly this config; `None` if none succeeded."""
    if trials.empty:
        return None
    matches = trials[trials["outcome"] == "ok"]
    for name, value in config.items():
        if KNOB + name not in matches:
            return None
        matches = matches[(matches[KNOB + name].astype("string") == str(value)).fillna(False)]
    seconds = matches["seconds_normalised"].min()
    return float(seconds) if isfinite(seconds) else None
