"""What `inspect` shows on a terminal: tables and a curve, without MLIR."""

from typing import Any

import numpy as np
import pandas as pd
from rich.table import Table

from autotune.reports.format import duration, out
from autotune.reports.holdings import Holdings
from autotune.reports.overview import Curve, best_so_far, describe_sweeps
from autotune.reports.versus import Side, Versus

EIGHTHS = " ▁▂▃▄▅▆▇█"
CURVE_ROWS, CURVE_COLUMNS = 5, 60


def show_holdings(holdings: Holdings, top: int) -> None:
    """Everything at a glance: best configs, how the search got there, what became of the trials, where time went."""
    console = out()
    sweeps = describe_sweeps(holdings.frame, top, holdings.roofs)
    console.print(sweep_table(sweeps))
    for payload, rows in holdings.frame.groupby("payload", sort=False):
        console.print()
        for line in draw_progress(str(payload), rows, min(CURVE_COLUMNS, console.width - 12)):
            console.print(line, markup=False)
    if sweeps:
        console.print(f"\n{spending(sweeps)}", markup=False)
    if holdings.roofs is not None:
        console.print(f"FMA roof {holdings.roofs.flops / 1e9:.1f} GFLOP/s, as the newest run measured it", markup=False)


def sweep_table(sweeps: list[dict[str, Any]]) -> Table:
    """Each task's outcomes and best configs."""
    table = Table(box=None, pad_edge=False)
    for column in ("task", "trials", "time", "GFLOP/s", "of roof", "config"):
        numeric = column in ("trials", "time", "GFLOP/s", "of roof")
        table.add_column(column, overflow="fold", justify="right" if numeric else "left")
    for sweep in sweeps:
        failed = {k: v for k, v in sweep["outcomes"].items() if k != "ok"}
        said = f"{sweep['trials']}" + (f" ({', '.join(f'{v} {k}' for k, v in failed.items())})" if failed else "")
        name = f"{sweep['payload']} {sweep['task']}" if sweep["payload"] != sweep["task"] else sweep["task"]
        for index, best in enumerate(sweep["best"] or [None]):
            table.add_row(name if index == 0 else "", said if index == 0 else "", *best_cells(best))
    return table


def best_cells(best: dict[str, Any] | None) -> list[str]:
    """Time, rate, share and knobs of a config."""
    if best is None:
        return ["-", "-", "-", "no trial succeeded"]
    share = f"{best['roof_fraction']:.1%}" if best["roof_fraction"] is not None else "-"
    gflops = f"{best['gflops']:.1f}" if best["gflops"] else "-"
    return [duration(best["seconds"]), gflops, share, " ".join(f"{k}={v}" for k, v in best["config"].items())]


def draw_progress(payload: str, rows: pd.DataFrame, columns: int) -> list[str]:
    """The best so far over trials, as a share of what was reached in the end, over all tasks of a payload."""
    shares = speed_shares(rows)
    if not np.isfinite(shares).any():
        return [f"{payload}: no trial succeeded"]
    picked = shares[np.linspace(0, len(shares) - 1, max(1, min(columns, len(shares)))).round().astype(int)]
    lines = [f"{payload}: speed of the best so far, of that after {len(shares)} trials"]
    for row in reversed(range(CURVE_ROWS)):
        fill = np.clip(np.nan_to_num(picked) * CURVE_ROWS - row, 0, 1)
        label = f"{(row + 1) / CURVE_ROWS:4.0%} |"
        lines.append(f"{label:>8}" + "".join(EIGHTHS[round(float(x) * 8)] for x in fill))
    return [*lines, f"{'+':>8}{'-' * len(picked)}"]


def speed_shares(rows: pd.DataFrame) -> Curve:
    """After each trial of a payload, how near every task is to its own end, as the geometric mean of speeds."""
    curves = [best_so_far(task) for _, task in rows.groupby("task", sort=False)]
    curves = [curve[-1] / curve for curve in curves if np.isfinite(curve[-1])]
    if not curves:
        return np.array([np.nan])
    length = max(map(len, curves))
    stretched = [curve[np.linspace(0, len(curve) - 1, length).round().astype(int)] for curve in curves]
    return np.asarray(np.exp(np.mean(np.log(np.nan_to_num(stretched, nan=1e-9)), axis=0)))


def spending(sweeps: list[dict[str, Any]]) -> str:
    """Where the workers' time went, in a sentence."""
    phases = {name: sum(sweep["phase_seconds"][name] for sweep in sweeps) for name in sweeps[0]["phase_seconds"]}
    total = sum(phases.values())
    ran = sum(sweep["trials"] - sweep["outcomes"].get("duplicate", 0) for sweep in sweeps)
    if not total:
        return f"{ran} trials ran; no time is recorded"
    shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in phases.items())
    return f"workers: {duration(total)} for {ran} trials, {ran / total:.2g} a second; {shares}"


def show_versus(found: Versus) -> None:
    """Two sides task by task."""
    table = Table(box=None, pad_edge=False)
    for column in ("task", "here", "there", "there / here [95 %]", "trials", "to 95 %"):
        wraps = column == "task"
        table.add_column(column, overflow="fold", justify="left" if wraps else "right", no_wrap=not wraps)
    for one in found.pairs:
        sides = (one.here, one.there)
        names = dict.fromkeys(f"{s.payload} {s.task}" if s.payload != s.task else s.task for s in sides)
        ratio = f"{one.ratio.estimate:.3f} [{one.ratio.low:.3f}, {one.ratio.high:.3f}]" if one.ratio else "-"
        trials = ", ".join(str(side.trials) for side in sides)
        reached = ", ".join(str(side.to_95) if side.to_95 is not None else "-" for side in sides)
        table.add_row(" | ".join(names), *map(speed, sides), ratio, trials, reached)
    console = out()
    console.print(f"here: {found.here}; there: {found.there}", markup=False, soft_wrap=True)
    console.print(table)
    console.print(
        "Above 1: the sweep here found the faster config. Drift is divided out, but two sessions were compared."
    )


def speed(side: Side) -> str:
    """Time and rate of one side's best."""
    return duration(side.seconds) + (f", {side.gflops:.1f} GFLOP/s" if side.gflops else "")


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
