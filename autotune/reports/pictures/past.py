"""Plot of speed-ups over accepted regression checks."""

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from autotune.reports.pictures.style import GREY, INK, figure_of, head, legend_below, shorten

VERDICTS = {  # marker and colour
    "ok": ("o", "#009E73"),
    "faster": ("^", "#0072B2"),
    "slower": ("v", "#D55E00"),
    "wrong": ("X", "#a50026"),
    "stale": ("s", GREY),
    "inconclusive": ("D", "#E69F00"),
}
UNTIMED, CHANGED = ", no time", "compiler changed"
LEGEND = (*VERDICTS, *(f"{verdict}{UNTIMED}" for verdict in VERDICTS), CHANGED)
LEAST_ROOM = pd.Timedelta(hours=2)  # margin on either side of the checks
FOOT = 0.06  # height of the markers of checks without a speed-up, as a share of the axes
MOST_TICKS = 5
MOST_PANELS = 4  # payloads in one figure


def history(checks: pd.DataFrame) -> Figure:
    """Plot speed-ups with their intervals over the date, one panel per payload, since their scales differ.

    Args:
        checks: Checks from `autotune.store.history.read_history`: at least one, of at most `MOST_PANELS` payloads.
    """
    payloads = list(checks.sort_values("time", kind="stable").groupby("payload", sort=False))
    columns = min(2, len(payloads))
    lines = -(-len(payloads) // columns)
    figure, grid = figure_of(lines, columns)
    first, last = checks["time"].min(), checks["time"].max()
    room = max(LEAST_ROOM, 0.07 * (last - first))
    handles: dict[str, Artist] = {}
    for index, axes in enumerate(grid.flat):
        if index >= len(payloads):
            axes.set_axis_off()
            continue
        payload, rows = payloads[index]
        draw_line(axes, rows)
        axes.set_xlim(first - room, last + room)
        axes.set_title(*shorten([str(payload)], 40), loc="left", fontsize=8.5)
        axes.set_ylabel("speed-up" if index % columns == 0 else "")
        axes.set_xlabel("date, UTC" if index >= len(payloads) - columns else "", loc="left")
        handles |= {name: handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [name for name in LEGEND if name in handles]
    head(figure, "Speed-up over the baseline with its 95 % interval, check by check")
    legend_below(figure, [handles[name] for name in names], names, columns=4)
    return figure


def draw_line(axes: Axes, rows: pd.DataFrame) -> None:
    """Plot one payload: a line per machine, a marker per verdict, and vertical lines where the compiler changed."""
    timed = rows[rows["speedup"].notna()]
    for _, mine in timed.groupby("machine", sort=False):
        axes.plot(mine["time"], mine["speedup"], color=GREY, lw=1)
    for verdict, (marker, colour) in VERDICTS.items():
        style: Any = {"color": colour, "ms": 6}
        mine = timed[timed["verdict"] == verdict]
        if len(mine):
            errors = [mine["speedup"] - mine["low"], mine["high"] - mine["speedup"]]
            axes.errorbar(mine["time"], mine["speedup"], yerr=errors, fmt=marker, capsize=3, label=verdict, **style)
        untimed = rows[rows["speedup"].isna() & (rows["verdict"] == verdict)]
        if len(untimed):
            foot, x_transform = [FOOT] * len(untimed), axes.get_xaxis_transform()
            text = f"{verdict}{UNTIMED}"
            axes.plot(untimed["time"], foot, marker, mfc="none", transform=x_transform, label=text, **style)
    changed = rows["compiler"].ne(rows["compiler"].shift()).iloc[1:]
    for when in rows["time"].iloc[1:][changed]:
        axes.axvline(when, color=INK, ls=":", lw=1, label=CHANGED)
    axes.margins(y=0.15)
    axes.yaxis.set_major_formatter("{x:g} x")
    locator = AutoDateLocator(minticks=2, maxticks=MOST_TICKS)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.tick_params(labelsize=8)
