"""Pictures of a winner: where a call's time goes, and what each technique is worth."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from autotune.core.stats import Interval
from autotune.reports.pictures.style import GREY, INK, colour_of, figure_of, label, legend, scale_log, shorten


def budget(payload: str, tasks: Sequence[tuple[str, int, float]], whole: float) -> Figure:
    """Where a call's time goes, by the times of the tasks alone, the largest on top.

    Args:
        payload: Its name.
        tasks: Tag, executions a call, and seconds an execution.
        whole: Seconds a call of all of it.
    """
    ordered = sorted(tasks, key=lambda task: -task[1] * task[2])
    shares = [count * seconds / whole for _, count, seconds in ordered]
    names = [f"{name}, {count} x" for name, (_, count, _) in zip(shorten(t[0] for t in ordered), ordered, strict=True)]
    figure, ((axes,),) = figure_of(height=1.4 + 0.3 * len(names))
    bars = axes.barh(np.arange(len(names)), shares, color=colour_of(0))
    axes.set_yticks(np.arange(len(names)), names)
    axes.bar_label(bars, [f" {share:.1%}" for share in shares])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:.0%}")
    label(
        axes,
        f"Where a call's time goes, tasks timed alone\n{payload}",
        "share of a call of the whole",
        "task, executions a call",
    )
    return figure


def gains(payload: str, tasks: Sequence[tuple[str, float]], baseline: str) -> Figure:
    """How much faster every task is than the baseline, in the payload's order.

    Args:
        payload: Its name.
        tasks: Tag, and seconds of the baseline over seconds of the winner.
        baseline: Name of the pass pipeline.
    """
    places = np.arange(len(tasks))
    figure, ((axes,),) = figure_of(height=1.2 + 0.3 * len(tasks))
    bars = axes.barh(places, [gain - 1 for _, gain in tasks], left=1.0, color=colour_of(2))
    axes.bar_label(bars, [f" {gain:.3g} x" for _, gain in tasks])
    axes.axvline(1.0, color=INK, lw=0.8)
    axes.set_yticks(places, shorten(tag for tag, _ in tasks))
    axes.invert_yaxis()
    axes.margins(x=0.2)
    scale_log(axes.xaxis)
    label(axes, f"Speed-up of every task, timed alone\n{payload}", f"time of {baseline} / time of the winner", "task")
    return figure


def techniques(rows: Sequence[tuple[str, Interval]], *, built_up: bool) -> Figure:
    """What each technique is worth: a factor with its 95 % interval.

    Args:
        rows: Name and factor.
        built_up: Factors are gains of one step over the one before; else times without over times with.
    """
    names, factors = [name for name, _ in rows], [factor for _, factor in rows]
    middle = [factor.estimate for factor in factors]
    errors = [[f.estimate - f.low for f in factors], [f.high - f.estimate for f in factors]]
    figure, ((axes,),) = figure_of(height=1.4 + 0.35 * len(names))
    style = {"fmt": "o", "color": colour_of(0), "capsize": 3, "label": "median and 95 % interval"}
    axes.errorbar(middle, np.arange(len(names)), xerr=errors, **style)
    axes.axvline(1.0, color=GREY, ls="--", lw=0.8, label="no difference")
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    scale_log(axes.xaxis)
    what = "speed-up over the step before" if built_up else "time without it / time of the winner"
    label(axes, "What each technique is worth", what, "technique")
    legend(axes)
    return figure
