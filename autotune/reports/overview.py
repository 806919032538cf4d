"""What a store holds as plain data: what each sweep tried, found and spent, and how it got there."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from autotune.core.host.machine import Roofs
from autotune.core.space import Config, Value
from autotune.registry import roof_of_family
from autotune.reports.courses import Course, Curve, course_of
from autotune.reports.holdings import DefaultConfig, Holdings, names_of
from autotune.store.frames import KNOB, PHASES

Row: TypeAlias = "pd.Series[Any] | Mapping[str, Any]"  # a trial
SWEEP = ("payload", "task", "machine", "compiler")  # columns that tell sweeps apart


@dataclass(frozen=True)
class SweepFigures:
    """What the trials of one study come to.

    Attributes:
        payload: Name of the payload.
        task: Tag of the task.
        machine: Fingerprint of the machine.
        compiler: Version of MLIR.
        outcomes: Number of trials by outcome.
        phases: Seconds that the worker spent in each phase.
        best: The best trials as `describe_trial` gives them, fastest first.
        course: How the search came along.
        unproved: Whether the payload was imported, and nothing but its own plain lowering says what is right.
    """

    payload: str
    task: str
    machine: str
    compiler: str
    outcomes: Mapping[str, int]
    phases: Mapping[str, float]
    best: tuple[dict[str, Any], ...]
    course: Course
    unproved: bool = False


@dataclass(frozen=True)
class Overview:
    """What a store holds, without its trials.

    Attributes:
        figures: What each study comes to, oldest first; those without trials are left out.
        top: Most configs of a task that are shown.
        roofs: Roofs as the newest finished run measured them; `None` where none was finished.
        task_names: Names of tasks for people by payload and tag, where they are recorded.
    """

    figures: tuple[SweepFigures, ...] = ()
    top: int = 1
    roofs: Roofs | None = None
    task_names: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def describe(self) -> list[dict[str, Any]]:
        """Each task's outcomes, costs and best configs, as plain data."""
        groups: dict[tuple[str, ...], list[SweepFigures]] = {}
        for each in self.figures:
            groups.setdefault((each.payload, each.task, each.machine, each.compiler), []).append(each)
        return [dict(zip(SWEEP, key, strict=True)) | describe_sweep(mine, self.top) for key, mine in groups.items()]

    def courses(self, payload: str) -> list[Course]:
        """How the searches of a payload came along."""
        return [each.course for each in self.figures if each.payload == payload]

    def names(self, payload: str) -> dict[str, str]:
        """A name for people for every task of a payload, by tag."""
        tags = dict.fromkeys(each.task for each in self.figures if each.payload == payload)
        return names_of(payload, tags, self.task_names)


def overview_of(holdings: Holdings, top: int) -> Overview:
    """An overview of trials that were read."""
    figures = figures_of(holdings.frame, top, holdings.roofs, holdings.defaults, holdings.unproved)
    return Overview(figures, top, holdings.roofs, holdings.task_names)


def figures_of(
    frame: pd.DataFrame,
    top: int,
    roofs: Roofs | None,
    defaults: Mapping[str, DefaultConfig],
    unproved: Collection[str] = (),
) -> tuple[SweepFigures, ...]:
    """What trials come to, study by study.

    Args:
        frame: Trials, one row each.
        top: Most configs of a task.
        roofs: Roofs of the machine; `None` leaves shares of it unknown.
        defaults: Default configs by the name of the sweep; without, what differs from them and its gain are unknown.
        unproved: Names of the sweeps of payloads that nothing but their own plain lowering says the results of.
    """
    found = []
    for (payload, task, machine, compiler, sweep), rows in frame.groupby([*SWEEP, "sweep"], sort=False):
        best = rows[rows["outcome"] == "ok"].nsmallest(top, "seconds_normalised")
        described = tuple(describe_trial(row, roofs, defaults.get(str(sweep))) for _, row in best.iterrows())
        outcomes = {str(k): int(v) for k, v in rows["outcome"].value_counts().items()}
        key = (str(payload), str(task), str(machine), str(compiler))
        doubt = str(sweep) in unproved
        found.append(SweepFigures(*key, outcomes, phase_seconds(rows), described, course_of(rows), doubt))
    return tuple(found)


def describe_sweep(figures: Iterable[SweepFigures], top: int) -> dict[str, Any]:
    """One task's share of `Overview.describe`: what its studies, of other searches of it, come to."""
    counts: Counter[str] = Counter()
    spent = dict.fromkeys(PHASES, 0.0)
    best: list[dict[str, Any]] = []
    unproved = False
    for each in figures:
        unproved = each.unproved  # as the newest says
        counts.update(each.outcomes)
        spent = {phase: spent[phase] + each.phases[phase] for phase in PHASES}
        best += each.best
    total, trials = sum(spent.values()), counts.total()
    run = trials - counts["duplicate"]
    return {
        "trials": trials,
        "unproved": unproved,
        "outcomes": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "seconds_per_trial": total / trials if trials else 0.0,
        "phase_seconds": spent,
        "trials_per_second": run / total if total else None,
        "best": sorted(best, key=lambda trial: float(trial["seconds_normalised"]))[:top],
    }


def describe_trial(row: Row, roofs: Roofs | None, default: DefaultConfig | None) -> dict[str, Any]:
    """A measured trial; what differs from the default config is null where that is not recorded."""
    config = config_of(row)
    if default is not None:
        config = in_order(config, default.config)
    return {
        "seconds": float(row["seconds_median"]),
        "seconds_normalised": float(row["seconds_normalised"]),
        "gflops": float(row["gflops"]) if pd.notna(row.get("gflops")) else None,
        "roof_fraction": roof_fraction(row, roofs),
        "family": str(row["family"]),
        "config": config,
        "changed": changed_config(config, default.config) if default is not None else None,
        "over_default": default.seconds / float(row["seconds_normalised"]) if default and default.seconds else None,
    }


def in_order(config: Config, default: Config) -> dict[str, Value]:
    """A config with its knobs in the order of another's; knobs that the other lacks come last."""
    return {name: config[name] for name in default if name in config} | dict(config)


def changed_knobs(config: Config, default: Config) -> tuple[str, ...]:
    """Knobs of a config whose value another config does not have; numbers may be spelled, as frames do.

    Example:
        >>> changed_knobs({"tile_m": "8", "fuse": True, "math": "libm"}, {"tile_m": 8, "fuse": False})
        ('fuse', 'math')
    """
    return tuple(name for name, value in config.items() if name not in default or str(default[name]) != str(value))


def changed_config(config: Config, default: Config) -> dict[str, Value]:
    """The part of a config that another config does not have."""
    return {name: config[name] for name in changed_knobs(config, default)}


def phase_seconds(rows: pd.DataFrame) -> dict[str, float]:
    """Seconds the worker spent in each phase, over all trials."""
    return {phase: float(rows[f"{phase}_seconds"].sum()) for phase in PHASES}


def roof_fraction(row: Row, roofs: Roofs | None) -> float | None:
    """A trial's rate over the roof of its unit, the machine's drift divided out; `None` where either is unknown."""
    roof = roof_of_family(str(row["family"]), roofs.known) if roofs is not None else None
    if roof is None or pd.isna(row["gflops"]):
        return None
    return float(row["gflops"] * 1e9 * row["seconds_median"] / row["seconds_normalised"] / roof)


def config_of(row: Row) -> dict[str, Any]:
    """The knobs of a trial's row; of those that are not in a frame, ``config``."""
    if "config" in row:
        return dict(row["config"])
    return {
        str(column).removeprefix(KNOB): value.item() if hasattr(value, "item") else value
        for column, value in row.items()
        if str(column).startswith(KNOB) and pd.notna(value)
    }


def knobs_of(rows: pd.DataFrame) -> list[str]:
    """Columns of the knobs that took more than one value in these trials."""
    return [str(c) for c in rows if str(c).startswith(KNOB) and rows[c].nunique(dropna=True) > 1]


def seconds_so_far(rows: pd.DataFrame) -> Curve:
    """After each trial, the seconds that compiling, verifying and measuring have taken."""
    ordered = rows.sort_values("number", kind="stable")
    return np.asarray(ordered[[f"{phase}_seconds" for phase in PHASES]].sum(axis=1).cumsum(), dtype=np.float64)
