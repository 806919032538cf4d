"""A frame of trials as plain data: what each sweep tried, found and spent, and how it got there."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from autotune.core.machine import Roofs
from autotune.store.frames import KNOB, PHASES

Curve = npt.NDArray[np.float64]


def describe_sweeps(frame: pd.DataFrame, top: int, roofs: Roofs | None = None) -> list[dict[str, Any]]:
    """Each task's outcomes, costs and best configs, as plain data.

    Args:
        frame: Trials, one row each.
        top: Most configs of a task.
        roofs: Roofs of the machine; `None` leaves shares of the FMA roof unknown.
    """
    return [
        describe_sweep(str(payload), str(task), rows, top, roofs)
        for (payload, task, _, _), rows in frame.groupby(["payload", "task", "machine", "compiler"], sort=False)
    ]


def describe_sweep(payload: str, task: str, rows: pd.DataFrame, top: int, roofs: Roofs | None) -> dict[str, Any]:
    """One task's share of `describe_sweeps`."""
    best = rows[rows["outcome"] == "ok"].nsmallest(top, "seconds_normalised")
    spent = phase_seconds(rows)
    total = sum(spent.values())
    run = int((rows["outcome"] != "duplicate").sum())
    return {
        "payload": payload,
        "task": task,
        "trials": len(rows),
        "outcomes": {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
        "seconds_per_trial": total / len(rows) if len(rows) else 0.0,
        "phase_seconds": spent,
        "trials_per_second": run / total if total else None,
        "best": [
            {
                "seconds": float(row["seconds_median"]),
                "gflops": float(row["gflops"]) if pd.notna(row.get("gflops")) else None,
                "roof_fraction": roof_fraction(row, roofs),
                "config": config_of(row),
            }
            for _, row in best.iterrows()
        ],
    }


def phase_seconds(rows: pd.DataFrame) -> dict[str, float]:
    """Seconds the worker spent in each phase, over all trials."""
    return {phase: float(rows[f"{phase}_seconds"].sum()) for phase in PHASES}


def roof_fraction(row: "pd.Series[Any]", roofs: Roofs | None) -> float | None:
    """A trial's rate over the FMA roof, the machine's drift divided out; `None` where either is unknown."""
    if roofs is None or pd.isna(row["gflops"]):
        return None
    return float(row["gflops"] * 1e9 * row["seconds_median"] / row["seconds_normalised"] / roofs.flops)


def config_of(row: "pd.Series[Any]") -> dict[str, Any]:
    """The knobs of a trial's row."""
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
