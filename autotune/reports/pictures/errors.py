"""Plot of a call's time over the error of its outputs, with fewer and fewer tasks rounded."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from autotune.reports.error_front import FrontPoint
from autotune.reports.pictures.style import GREY, colour_of, figure_of, label, legend, marker_of, shorten


def front(payload: str, points: Sequence[FrontPoint], allowed: float) -> Figure:
    """Plot the recorded model, then one task after the other in f32, and the allowed error.

    Args:
        payload: Name of the payload.
        points: The recorded model, then one point per step.
        allowed: Error that was allowed, relative to the largest value of an output; 0 if it was bounded otherwise.
    """
    figure, ((axes,),) = figure_of()
    axes.plot([p.error for p in points], [p.seconds * 1e3 for p in points], color=GREY, lw=1, zorder=1)
    names = shorten([f"{p.exact} in f32" if p.exact else "as recorded" for p in points])
    for index, (point, name) in enumerate(zip(points, names, strict=True)):
        coordinates = [point.error], [point.seconds * 1e3]
        axes.scatter(*coordinates, 30, colour_of(index), marker=marker_of(index), zorder=2, clip_on=False, label=name)
    if allowed:
        axes.axvline(allowed, color=GREY, ls="--", lw=0.8, label=f"allowed, {allowed:g}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    title = f"Time against error: {shorten([payload], 40)[0]}"
    label(axes, title, "largest error, of the largest value of an output", "ms a call")
    legend(axes, below=True)
    return figure
