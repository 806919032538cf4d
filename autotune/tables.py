"""What `inspect` shows of a store: plain tables and plain data, without MLIR."""

from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

KNOB = "knob_"


def out() -> Console:
    """The console for results."""
    return Console(highlight=False)


def duration(seconds: float | None) -> str:
    """A time people can read: ``1.23 ms``."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def describe_sweeps(frame: pd.DataFrame, top: int) -> list[dict[str, Any]]:
    """Each task's outcomes and best configs, as plain data."""
    sweeps = []
    for (payload, task, _, _), rows in frame.groupby(["payload", "task", "machine", "compiler"], sort=False):
        best = rows[rows["outcome"] == "ok"].nsmallest(top, "seconds_normalised")
        phases = [column for column in rows if str(column).endswith("_seconds")]
        sweeps.append(
            {
                "payload": payload,
                "task": task,
                "trials": len(rows),
                "outcomes": {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
                "seconds_per_trial": float(rows[phases].sum(axis=1).mean()),
                "best": [
                    {
                        "seconds": float(row["seconds_median"]),
                        "gflops": float(row["gflops"]) if pd.notna(row.get("gflops")) else None,
                        "config": config_of(row),
                    }
                    for _, row in best.iterrows()
                ],
            }
        )
    return sweeps


def config_of(row: "pd.Series[Any]") -> dict[str, Any]:
    """The knobs of a trial's row."""
    return {
        str(column).removeprefix(KNOB): value.item() if hasattr(value, "item") else value
        for column, value in row.items()
        if str(column).startswith(KNOB) and pd.notna(value)
    }


def show_sweeps(frame: pd.DataFrame, top: int) -> None:
    """Each task's outcomes and best configs, as a table."""
    table = Table(box=None, pad_edge=False)
    for column in ("task", "trials", "time", "GFLOP/s", "config"):
        table.add_column(
            column, overflow="fold", justify="right" if column in ("trials", "time", "GFLOP/s") else "left"
        )
    for sweep in describe_sweeps(frame, top):
        failed = {k: v for k, v in sweep["outcomes"].items() if k != "ok"}
        said = f"{sweep['trials']}" + (f" ({', '.join(f'{v} {k}' for k, v in failed.items())})" if failed else "")
        name = f"{sweep['payload']} {sweep['task']}" if sweep["payload"] != sweep["task"] else sweep["task"]
        for index, best in enumerate(sweep["best"] or [None]):
            config = " ".join(f"{k}={v}" for k, v in best["config"].items()) if best else "no trial succeeded"
            gflops = f"{best['gflops']:.1f}" if best and best["gflops"] else "-"
            table.add_row(
                name if index == 0 else "",
                said if index == 0 else "",
                duration(best["seconds"]) if best else "-",
                gflops,
                config,
            )
    out().print(table)


def show_failures(frame: pd.DataFrame) -> None:
    """What failed, one line an outcome and diagnostic, with how often, and the key of one such trial."""
    failed = frame[~frame["outcome"].isin(("ok", "duplicate"))]
    if failed.empty:
        out().print("no trial failed")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("trial", "outcome", "times", "task", "diagnostic"):
        table.add_column(column, no_wrap=column != "diagnostic", overflow="fold")
    for (outcome, diagnostic), rows in failed.groupby(["outcome", "diagnostic"], sort=False):
        first = rows.iloc[0]
        table.add_row(first["key"][:12], str(outcome), str(len(rows)), first["task"], str(diagnostic))
    out().print(table)
