"""Plot of an arena: the bytes of each buffer from its first use to its last."""

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from autotune.contrib.analysis.arena_map import live_bytes
from autotune.core.arena_plan import BufferPlan
from autotune.reports.format import size
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import GREY, SETTINGS, colour_of, figure_of, label


def draw_arena(payload: str, plan: BufferPlan) -> Picture:
    """Draw the picture of a plan with at least one buffer."""
    live = live_bytes(plan)
    caption = (
        f"{len(plan.buffers)} buffers in an arena of {size(plan.peak_bytes)}; at most {size(max(live))} live at once."
    )
    with mpl.rc_context(SETTINGS):
        return Picture(f"{plain_name(payload)}-arena", caption, arena(payload, plan, live))


def arena(payload: str, plan: BufferPlan, live: list[int]) -> Figure:
    """Plot one rectangle per buffer, and the number of live bytes at each step as a line."""
    figure, axes_of = figure_of()
    axes, unit = axes_of[0][0], 2**10
    for number, (buffer, offset) in enumerate(zip(plan.buffers, plan.offsets, strict=True)):
        corner, steps = (buffer.first, offset / unit), buffer.last + 1 - buffer.first
        colour = colour_of(number)
        axes.add_patch(Rectangle(corner, steps, buffer.room / unit, facecolor=colour, edgecolor=GREY, linewidth=0.4))
    axes.step(range(len(live)), [count / unit for count in live], where="post", color="#222222", label="live")
    axes.set_xlim(0, len(live))
    axes.set_ylim(0, 1.05 * plan.peak_bytes / unit)
    axes.legend(loc="upper right")
    label(axes, f"Arena of {payload}", "step of the compiled program", "KiB")
    return figure
