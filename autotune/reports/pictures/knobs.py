"""Plots of one task's knobs: their importance, and the time over the values of one or two knobs."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autotune.reports.overview import knobs_of
from autotune.reports.pictures.style import (
    GREY,
    MOST_BARS,
    colour_of,
    figure_of,
    head,
    label,
    legend_below,
    scale_log,
    shorten,
)
from autotune.store.frames import KNOB

MOST_SLICES = 6
MOST_CELLS = 8  # per side of a table of two knobs with numbers in normal size


def importance(task: str, shares: dict[str, float]) -> Figure:
    """Plot the importance of the most important knobs as bars, the largest on top."""
    figure, ((axes,),) = figure_of()
    most = dict(sorted(shares.items(), key=lambda item: -item[1])[:MOST_BARS])
    bars = axes.barh(list(most), list(most.values()), color=colour_of(0))
    axes.bar_label(bars, [f"{share:.0%}" for share in most.values()], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:.0%}")
    label(
        axes,
        f"Knobs that matter: {shorten([task])[0]}",
        "importance (PED-ANOVA, best tenth)",
        "knob",
    )
    return figure


def slices(task: str, rows: pd.DataFrame, order: list[str]) -> Figure | None:
    """Plot the time over each knob, with the other knobs as chosen by the search: all trials, and the best per value.

    Args:
        task: Name of the task.
        rows: Trials of the task.
        order: Names of knobs in the order of their plots.

    Returns:
        Figure; `None` if no knob has several values.
    """
    right = rows[rows["outcome"] == "ok"]
    varied = [name.removeprefix(KNOB) for name in knobs_of(right)]
    knobs = [*(k for k in order if k in varied), *(k for k in varied if k not in order)][:MOST_SLICES]
    if not knobs:
        return None
    columns = min(3, len(knobs))
    lines = -(-len(knobs) // columns)
    figure, grid = figure_of(lines, columns)
    for index, axes in enumerate(grid.flat):
        if index >= len(knobs):
            axes.set_axis_off()
            continue
        draw_slice(axes, right, knobs[index])
        axes.set_ylabel("time" if index % columns == 0 else "", fontsize=8)
    head(figure, f"One knob at a time: {shorten([task])[0]}")
    legend_below(figure, *grid.flat[0].get_legend_handles_labels())
    return figure


def draw_slice(axes: Axes, right: pd.DataFrame, knob: str) -> None:
    """Plot the trials of one knob's values side by side."""
    values = sorted_values(right[KNOB + knob])
    position = {value: index for index, value in enumerate(values)}
    known = right[right[KNOB + knob].notna()]
    rng = np.random.default_rng(0)  # horizontal jitter only
    x = np.array([position[v] for v in known[KNOB + knob]]) + rng.uniform(-0.2, 0.2, len(known))
    axes.plot(x, known["seconds_normalised"], "o", ms=2.5, alpha=0.35, color=GREY, label="trial")
    best = [known.loc[known[KNOB + knob] == value, "seconds_normalised"].min() for value in values]
    axes.plot(range(len(values)), best, "_", ms=14, mew=2.5, color=colour_of(1), label="best with this value")
    scale_log(axes.yaxis, "s")
    tilt = 60 if sum(len(str(value)) for value in values) > 24 else 0
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks(range(len(values)), [str(v) for v in values], rotation=tilt, fontsize=7)
    axes.tick_params("y", which="both", labelsize=7)
    axes.set_xlabel(knob, fontsize=8)


def sorted_values(column: "pd.Series[Any]") -> list[Any]:
    """Return a knob's values in ascending order, numerically if all are numbers."""
    values = list(column.dropna().unique())
    numeric = all(isinstance(v, (int, float, np.integer)) for v in values)
    return sorted(values, key=(lambda v: v) if numeric else str)


def pair(task: str, rows: pd.DataFrame, first: str, second: str) -> Figure:
    """Plot the best time for each pair of values of two knobs as a heat map; cells without a success are empty."""
    right = rows[(rows["outcome"] == "ok") & rows[KNOB + first].notna() & rows[KNOB + second].notna()]
    ys, xs = sorted_values(right[KNOB + first]), sorted_values(right[KNOB + second])
    best = right.groupby([KNOB + first, KNOB + second])["seconds_normalised"].min()
    lowest = float(best.min())
    table = np.array([[best.get((y, x), np.nan) / lowest for x in xs] for y in ys], dtype=float)
    figure, ((axes,),) = figure_of()
    shown = axes.pcolormesh(np.arange(len(xs) + 1), np.arange(len(ys) + 1), np.log2(table), cmap="viridis_r")
    size = 8 if max(table.shape) <= MOST_CELLS else 6
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            dark = np.log2(value) > 0.55 * np.nanmax(np.log2(table))
            ink = "w" if dark else "k"
            axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", size=size, color=ink)
    axes.set_xticks(np.arange(len(xs)) + 0.5, [str(x) for x in xs])
    axes.set_yticks(np.arange(len(ys)) + 0.5, [str(y) for y in ys])
    axes.grid(visible=False)
    bar = figure.colorbar(
        shown, ax=axes, label="time / best time; empty was not tried", format=lambda log, _: f"{2**log:.3g}"
    )
    bar.outline.set_visible(False)
    label(axes, f"Two knobs at a time: {shorten([task])[0]}", second, first)
    return figure
