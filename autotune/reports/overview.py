"""Overview of a store as plain data: outcomes, best configs, costs and progress of each sweep."""

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
    """Summary of the trials of one study.

    Attributes:
        payload: Name of the payload.
        task: Tag of the task.
        machine: Fingerprint of the machine.
        compiler: Version of MLIR.
        outcomes: Number of trials by outcome.
        phases: Seconds that the worker spent in each phase.
        best: Best trials as `describe_trial` returns them, fastest first.
        course: Best time so far over the trials.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
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
    """Summary of a store, without its trials.

    Attributes:
        figures: Summary of each study that has trials, oldest first.
        top: Maximum number of configs shown per task.
        roofs: Roofs measured by the latest finished run; `None` if there is none.
        task_names: Recorded readable names of tasks, by payload and tag.
    """

    figures: tuple[SweepFigures, ...] = ()
    top: int = 1
    roofs: Roofs | None = None
    task_names: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def describe(self) -> list[dict[str, Any]]:
        """Return each task's outcomes, costs and best configs, as plain data."""
        groups: dict[tuple[str, ...], list[SweepFigures]] = {}
        for each in self.figures:
            groups.setdefault((each.payload, each.task, each.machine, each.compiler), []).append(each)
        return [dict(zip(SWEEP, key, strict=True)) | describe_sweep(group, self.top) for key, group in groups.items()]

    def courses(self, payload: str) -> list[Course]:
        """Return the courses of all searches of a payload."""
        return [each.course for each in self.figures if each.payload == payload]

    def names(self, payload: str) -> dict[str, str]:
        """Return a unique readable name for every task of a payload, by tag."""
        tags = dict.fromkeys(each.task for each in self.figures if each.payload == payload)
        return names_of(payload, tags, self.task_names)


def overview_of(holdings: Holdings, top: int) -> Overview:
    """Create the overview of a store's contents."""
    figures = figures_of(holdings.frame, top, holdings.roofs, holdings.defaults, holdings.unproved)
    return Overview(figures, top, holdings.roofs, holdings.task_names)


def figures_of(
    frame: pd.DataFrame,
    top: int,
    roofs: Roofs | None,
    defaults: Mapping[str, DefaultConfig],
    unproved: Collection[str] = (),
) -> tuple[SweepFigures, ...]:
    """Summarize trials by study.

    Args:
        frame: Trials, one row each.
        top: Maximum number of configs per task.
        roofs: Roofs of the machine; if `None`, shares of the roof are unknown.
        defaults: Default configs by the name of the sweep; without one, differences and speed-ups are unknown.
        unproved: Names of the sweeps of imported payloads whose plain lowering is the only oracle.
    """
    figures = []
    for (payload, task, machine, compiler, sweep), rows in frame.groupby([*SWEEP, "sweep"], sort=False):
        best = rows[rows["outcome"] == "ok"].nsmallest(top, "seconds_normalised")
        described = tuple(describe_trial(row, roofs, defaults.get(str(sweep))) for _, row in best.iterrows())
        outcomes = {str(k): int(v) for k, v in rows["outcome"].value_counts().items()}
        key = (str(payload), str(task), str(machine), str(compiler))
        doubt = str(sweep) in unproved
        figures.append(SweepFigures(*key, outcomes, phase_seconds(rows), described, course_of(rows), doubt))
    return tuple(figures)


def describe_sweep(figures: Iterable[SweepFigures], top: int) -> dict[str, Any]:
    """Return the entry of one task in `Overview.describe`, combined from all of its studies."""
    counts: Counter[str] = Counter()
    spent = dict.fromkeys(PHASES, 0.0)
    best: list[dict[str, Any]] = []
    unproved = False
    for each in figures:
        unproved = each.unproved  # of the newest study
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
    """Describe a measured trial; differences from the default config are `None` if that is not recorded."""
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
    """Sort a config's knobs in the order of the default config's; knobs that this lacks come last."""
    return {name: config[name] for name in default if name in config} | dict(config)


def changed_knobs(config: Config, default: Config) -> tuple[str, ...]:
    """Return the knobs of a config whose values differ from the default's; values are compared as strings.

    Example:
        >>> changed_knobs({"tile_m": "8", "fuse": True, "math": "libm"}, {"tile_m": 8, "fuse": False})
        ('fuse', 'math')
    """
    return tuple(name for name, value in config.items() if name not in default or str(default[name]) != str(value))


def changed_config(config: Config, default: Config) -> dict[str, Value]:
    """Return the part of a config that differs from the default."""
    return {name: config[name] for name in changed_knobs(config, default)}


def phase_seconds(rows: pd.DataFrame) -> dict[str, float]:
    """Return the seconds that the worker spent in each phase, over all trials."""
    return {phase: float(rows[f"{phase}_seconds"].sum()) for phase in PHASES}


def roof_fraction(row: Row, roofs: Roofs | None) -> float | None:
    """Return a trial's rate over the roof of its unit, drift divided out; `None` if either is unknown."""
    roof = roof_of_family(str(row["family"]), roofs.known) if roofs is not None else None
    if roof is None or pd.isna(row["gflops"]):
        return None
    return float(row["gflops"] * 1e9 * row["seconds_median"] / row["seconds_normalised"] / roof)


def config_of(row: Row) -> dict[str, Any]:
    """Return the config of a trial: from the knob columns of a frame's row, or from key ``config`` of a mapping."""
    if "config" in row:
        return dict(row["config"])
    return {
        str(column).removeprefix(KNOB): value.item() if hasattr(value, "item") else value
        for column, value in row.items()
        if str(column).startswith(KNOB) and pd.notna(value)
    }


def knobs_of(rows: pd.DataFrame) -> list[str]:
    """Return the columns of knobs with more than one value in these trials."""
    return [str(c) for c in rows if str(c).startswith(KNOB) and rows[c].nunique(dropna=True) > 1]


def seconds_so_far(rows: pd.DataFrame) -> Curve:
    """Return the cumulative seconds of compilation, verification and measurement after each trial."""
    ordered = rows.sort_values("number", kind="stable")
    return np.asarray(ordered[[f"{phase}_seconds" for phase in PHASES]].sum(axis=1).cumsum(), dtype=np.float64)
