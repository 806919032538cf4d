"""A frame of trials as plain data: what each sweep tried, found and spent, and how it got there."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from autotune.core.machine import Roofs
from autotune.core.space import Config, Value
from autotune.reports.holdings import DefaultConfig
from autotune.store.frames import KNOB, PHASES

SWEEP = ("payload", "task", "machine", "compiler")  # columns that tell sweeps apart

Curve = npt.NDArray[np.float64]


def describe_sweeps(
    frame: pd.DataFrame, top: int, roofs: Roofs | None = None, defaults: Mapping[str, DefaultConfig] | None = None
) -> list[dict[str, Any]]:
    """Each task's outcomes, costs and best configs, as plain data.

    Args:
        frame: Trials, one row each.
        top: Most configs of a task.
        roofs: Roofs of the machine; `None` leaves shares of the FMA roof unknown.
        defaults: Default configs by the name of the sweep; without, what differs from them and its gain are unknown.
    """
    groups = frame.groupby(list(SWEEP), sort=False)
    return [
        dict(zip(SWEEP, map(str, names), strict=True)) | describe_sweep(rows, top, roofs, defaults or {})
        for names, rows in groups
    ]


def describe_sweep(
    rows: pd.DataFrame, top: int, roofs: Roofs | None, defaults: Mapping[str, DefaultConfig]
) -> dict[str, Any]:
    """One task's share of `describe_sweeps`."""
    best = rows[rows["outcome"] == "ok"].nsmallest(top, "seconds_normalised")
    spent = phase_seconds(rows)
    total = sum(spent.values())
    run = int((rows["outcome"] != "duplicate").sum())
    return {
        "trials": len(rows),
        "outcomes": {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
        "seconds_per_trial": total / len(rows) if len(rows) else 0.0,
        "phase_seconds": spent,
        "trials_per_second": run / total if total else None,
        "best": [describe_trial(row, roofs, defaults.get(row["sweep"])) for _, row in best.iterrows()],
    }


def describe_trial(row: "pd.Series[Any]", roofs: Roofs | None, default: DefaultConfig | None) -> dict[str, Any]:
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


def roof_fraction(row: "pd.Series[Any]", roofs: Roofs | None) -> float | None:
    """A trial's rate over the FMA roof, the machine's drift divided out; `None` where either is unknown."""
    if roofs is None or pd.isna(row["gflops"]):
        return None
    return float(row["gflops"] * 1e9 * row["seconds_median"] / row["seconds_normalised"] / roofs.flops)


def config_of(row: "pd.Series[Any]") -> dict[str, Any]:
    """The knobs of a trial's row; those of `autotune.reports.glance` have them in one column."""
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


def best_so_far(rows: pd.DataFrame) -> Curve:
    """After each trial, the least seconds a call seen, drift divided out; NaN before the first success."""
    ordered = rows.sort_values("number", kind="stable")
    seconds = ordered["seconds_normalised"].where(ordered["outcome"] == "ok")
    return np.asarray(seconds.cummin().ffill(), dtype=np.float64)


def seconds_so_far(rows: pd.DataFrame) -> Curve:
    """After each trial, the seconds that compiling, verifying and measuring have taken."""
    ordered = rows.sort_values("number", kind="stable")
    return np.asarray(ordered[[f"{phase}_seconds" for phase in PHASES]].sum(axis=1).cumsum(), dtype=np.float64)
