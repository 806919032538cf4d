"""Plots of a winner: shares of a call's time, speed-ups, comparison with libraries, all samples."""

from collections.abc import Sequence
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from autotune.core.stats import Interval
from autotune.reports.pictures.style import (
    GREY,
    INK,
    MOST_BARS,
    colour_of,
    figure_of,
    head,
    label,
    legend_below,
    scale_log,
    shorten,
)

MOST_LINEAR = 10.0  # deviation from the median in percent up to which the axis of samples is linear


def budget(payload: str, tasks: Sequence[tuple[str, int, float]], whole: float) -> Figure:
    """Plot the tasks' shares of a call's time as bars, the largest on top; tasks were timed individually.

    Args:
        payload: Name of the payload.
        tasks: Name, executions per call, and seconds per execution of each task.
        whole: Seconds per call of the whole.
    """
    ordered = sorted(tasks, key=lambda task: -task[1] * task[2])
    shares = [count * seconds / whole for _, count, seconds in ordered]
    names = [f"{name}, {count} x" for name, (_, count, _) in zip(shorten(t[0] for t in ordered), ordered, strict=True)]
    if len(names) > MOST_BARS:
        rest = len(names) - MOST_BARS + 1
        names, shares = [*names[:-rest], f"{rest} others"], [*shares[:-rest], sum(shares[-rest:])]
    figure, ((axes,),) = figure_of()
    draw_bars(axes, names, shares, [f"{share:.1%}" for share in shares], colour_of(0))
    axes.margins(x=0.16)
    axes.xaxis.set_major_formatter("{x:.0%}")
    label(axes, f"Where the time of {shorten([payload], 40)[0]} goes", "share of a call, tasks timed alone", "")
    return figure


def speedups(payload: str, tasks: Sequence[tuple[str, float]], baseline: str) -> Figure:
    """Plot the speed-up of every task over the baseline, in the payload's order; only the largest if there are many.

    Args:
        payload: Name of the payload.
        tasks: Name and speed-up (time of the baseline over time of the winner) of each task.
        baseline: Name of the naive lowering.
    """
    largest = sorted(tasks, key=lambda task: -task[1])[:MOST_BARS]
    shown = [task for task in tasks if task in largest]
    figure, ((axes,),) = figure_of()
    widths = [factor - 1 for _, factor in shown]
    draw_bars(axes, shorten(n for n, _ in shown), widths, [f"{g:.3g}x" for _, g in shown], colour_of(2), start=1.0)
    axes.axvline(1.0, color=INK, lw=0.8)
    axes.margins(x=0.2)
    scale_log(axes.xaxis)
    title = f"Speed-up over the naive lowering: {shorten([payload], 40)[0]}"
    label(axes, title, f"time of {baseline} / time of the winner, tasks timed alone", "")
    return figure


def rivals(payload: str, rows: Sequence[tuple[str, Interval, str]], ours: str) -> Figure:
    """Plot the time per call of each entry of a comparison, the fastest on top.

    Args:
        payload: Name of the payload.
        rows: Name, seconds per call with a 95 % interval, and annotation of each entry.
        ours: Name of this project's row.
    """
    ordered = sorted(rows, key=lambda row: row[1].estimate)
    figure, ((axes,),) = figure_of()
    for index, (name, seconds, text) in enumerate(ordered):
        errors = [[seconds.estimate - seconds.low], [seconds.high - seconds.estimate]]
        colour = colour_of(1) if name == ours else colour_of(0)
        axes.errorbar([seconds.estimate], [index], xerr=errors, fmt="o", color=colour, capsize=3, ms=6)
        axes.annotate(text, (seconds.estimate, index), (0, 6), textcoords="offset points", ha="center", size=8)
    axes.set_yticks(range(len(ordered)), [name for name, *_ in ordered])
    axes.set_ylim(len(ordered) - 0.5, -0.7)
    axes.margins(x=0.12)
    scale_log(axes.xaxis, "s")
    label(axes, f"{shorten([payload], 40)[0]} beside other libraries", "time of a call, one thread each", "")
    return figure


def every_time(payload: str, sessions: Sequence[tuple[Sequence[float], Sequence[float]]], baseline: str) -> Figure:
    """Plot all recorded samples relative to their median, in chronological order, the winner above the baseline.

    Args:
        payload: Name of the payload.
        sessions: Samples of the winner and of the baseline in seconds per call, one pair per process.
        baseline: Name of the baseline.
    """
    sides = [("winner", [best for best, _ in sessions]), (baseline, [base for _, base in sessions])]
    sides = [(name, times) for name, times in sides if any(times)]
    figure, grid = figure_of(len(sides), 1)
    for axes, (name, times) in zip(grid.flat, sides, strict=True):
        draw_sessions(axes, times)
        axes.set_ylabel(f"{name},\n% off its median")
    grid.flat[-1].set_xlabel("sample, in the order they were taken")
    head(figure, f"Every recorded time of {shorten([payload], 40)[0]}")
    handles, names = grid.flat[0].get_legend_handles_labels()
    legend_below(figure, handles, names, columns=4)
    return figure


def draw_sessions(axes: Axes, sessions: Sequence[Sequence[float]]) -> None:
    """Plot the samples of one program, process by process, in percent above their common median."""
    middle, start = median(seconds for times in sessions for seconds in times), 1
    furthest = max(abs(seconds / middle - 1) for times in sessions for seconds in times)
    if 100 * furthest > MOST_LINEAR:
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:+g}")
    for index, times in enumerate(sessions):
        x = np.arange(start, start + len(times))
        off = [100 * (seconds / middle - 1) for seconds in times]
        axes.plot(x, off, "o", ms=3, color=colour_of(index), label=f"process {index + 1}")
        start += len(times)
    axes.axhline(0.0, color=GREY, ls="--", lw=0.8)


def draw_bars(
    axes: Axes, names: Sequence[str], widths: Sequence[float], texts: Sequence[str], colour: str, *, start: float = 0.0
) -> None:
    """Plot horizontal bars, each with its name on the left and its annotation on the right."""
    positions = np.arange(len(names))
    axes.barh(positions, widths, left=start, color=colour)
    for position, width, text in zip(positions, widths, texts, strict=True):
        end = (start + max(width, 0.0), position)
        axes.annotate(text, end, (4, 0), textcoords="offset points", va="center", size=8)
    axes.set_yticks(positions, list(names), fontsize=8)
    axes.grid(visible=False, axis="y")
    axes.invert_yaxis()
