"""Plots of a search: best time so far, outcomes of trials, and their costs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from autotune.core.trial import OUTCOMES
from autotune.reports.courses import Curve, best_so_far
from autotune.reports.overview import seconds_so_far
from autotune.reports.pictures.style import (
    OUTCOME_COLOURS,
    colour_of,
    figure_of,
    label,
    legend,
    marker_of,
    scale_log,
    shorten,
    style_of,
)
from autotune.store.frames import PHASES

XValues = Callable[[pd.DataFrame], Curve]

COMPILING = ("transform", "lower", "jit")
END: Any = {"marker": "o", "markevery": [-1], "ms": 4}  # a dot at a line's end makes a single trial visible
MOST_BINS, MOST_SLICES = 40, 25


def best_over_trials(rows: pd.DataFrame) -> Figure:
    """Plot the best time so far over trials, one line per task."""
    figure = draw_curves(rows, "trials", "trial of the task", lambda task: np.arange(1.0, len(task) + 1))
    figure.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def best_over_seconds(rows: pd.DataFrame) -> Figure:
    """Plot the best time so far over the workers' time in seconds, one line per task."""
    return draw_curves(rows, "seconds", "seconds of compiling, verifying and measuring", seconds_so_far)


def draw_curves(rows: pd.DataFrame, over: str, x: str, x_values: XValues) -> Figure:
    """Plot one line per task; with several tasks, times are relative to the final best time of each."""
    tasks = list(rows.groupby("task", sort=False))
    figure, ((axes,),) = figure_of()
    names = shorten(str(name) for name, _ in tasks) if len(tasks) > 1 else ["best so far"]
    for index, ((_, task), name) in enumerate(zip(tasks, names, strict=True)):
        curve = best_so_far(task)
        if not np.isfinite(curve).any():
            continue
        if len(tasks) > 1:
            curve = curve / curve[-1]
        axes.step(x_values(task), curve, where="post", color=colour_of(index), ls=style_of(index), **END, label=name)
        if len(tasks) == 1:
            draw_trials(axes, task, x_values(task))
    if len(tasks) > 1:
        label(axes, f"Best so far over {over}, task by task", x, "time / best time in the end")
        scale_log(axes.yaxis)
    else:
        label(axes, f"Best so far over {over}: {shorten([str(rows['task'].iloc[0])], 50)[0]}", x, "time of a call")
        scale_log(axes.yaxis, "s")
    legend(axes, below=len(tasks) > 1)
    return figure


def draw_trials(axes: Axes, task: pd.DataFrame, x_values: Curve) -> None:
    """Plot every successful trial as a dot."""
    ordered = task.sort_values("number", kind="stable").reset_index(drop=True)
    right = ordered["outcome"] == "ok"
    axes.plot(
        x_values[right],
        ordered.loc[right, "seconds_normalised"],
        "o",
        ms=3,
        alpha=0.4,
        color=colour_of(1),
        label="trial",
    )


def distribution(rows: pd.DataFrame) -> Figure:
    """Plot a histogram of the trials' times, relative to the best of their task."""
    right = rows[rows["outcome"] == "ok"]
    slower = right["seconds_normalised"] / right.groupby("task")["seconds_normalised"].transform("min")
    figure, ((axes,),) = figure_of()
    bins = np.geomspace(1, max(1.01, float(slower.max())), min(MOST_BINS, max(5, len(slower) // 3)))
    axes.hist(slower, bins=[float(x) for x in bins], color=colour_of(0), label=f"{len(slower)} trials that were right")
    scale_log(axes.xaxis)
    middle = float(slower.median())
    axes.axvline(middle, color=colour_of(1), ls="--", label=f"median, {middle:.2f} x")
    label(axes, "How good configs are", "time / best time of the task", "trials")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return figure


def outcomes(rows: pd.DataFrame) -> Figure:
    """Plot the outcomes of trials as stacked bars, in the order of the search, in bins of equal size."""
    order = rows.reset_index(drop=True)
    width = -(-len(order) // MOST_SLICES)
    counts = pd.crosstab(np.arange(len(order)) // width, order["outcome"])
    figure, ((axes,),) = figure_of()
    floor = np.zeros(len(counts))
    for outcome in (name for name in OUTCOMES if name in counts):
        values = counts[outcome].to_numpy(dtype=float)
        name = f"{outcome}, {int(values.sum())}"
        positions = [float(x) for x in counts.index * width]
        axes.bar(positions, values, width * 0.92, floor, align="edge", color=OUTCOME_COLOURS[outcome], label=name)
        floor = floor + values
    label(axes, "Outcomes of trials", "trial", f"trials, in bins of {width}" if width > 1 else "trials")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes, below=True)
    return figure


def costs(rows: pd.DataFrame) -> Figure:
    """Plot the time per call over the compile time of every successful trial."""
    right = rows[rows["outcome"] == "ok"]
    compiling = right[[f"{phase}_seconds" for phase in COMPILING]].sum(axis=1)
    figure, ((axes,),) = figure_of()
    tasks = right["task"].unique()
    for index, (task, name) in enumerate(zip(tasks, shorten(map(str, tasks)), strict=True)):
        is_task = right["task"] == task
        seconds = right.loc[is_task, "seconds_normalised"]
        axes.scatter(compiling[is_task], seconds, 14, colour_of(index), marker=marker_of(index), alpha=0.6, label=name)
    scale_log(axes.xaxis, "s")
    scale_log(axes.yaxis, "s")
    label(axes, "Compile time against run time", "transform, lower and compile", "time of a call")
    legend(axes, below=True)
    return figure


def phases(rows: pd.DataFrame) -> Figure:
    """Plot the workers' time per phase as bars."""
    seconds = [float(rows[f"{phase}_seconds"].sum()) for phase in PHASES]
    figure, ((axes,),) = figure_of()
    bars = axes.barh(PHASES, seconds, color=colour_of(0))
    total = sum(seconds) or 1.0
    axes.bar_label(bars, [f"{s / total:.0%}" for s in seconds], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    label(axes, f"Where {total:.3g} s of the workers' time went", "seconds, all trials", "phase")
    return figure
