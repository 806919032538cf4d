"""What all pictures look like: size, colours that the colour-blind can tell apart, units on the axes."""

from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator

# Okabe and Ito, "Color Universal Design", 2008; without yellow, which is faint on white, and black
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = "osD^vPX*<>"
GREY = "#8a8a8a"
INK = "#222222"  # of text and axes
OUTCOME_COLOURS = {
    "ok": "#009E73",
    "duplicate": "#8a8a8a",
    "constraint": "#c0c0c0",
    "transform-failed": "#56B4E9",
    "verify-failed": "#3a92c9",
    "lowering-failed": "#0072B2",
    "jit-failed": "#003f6b",
    "crashed": "#D55E00",
    "timed-out": "#E69F00",
    "out-of-memory": "#CC79A7",
    "wrong-result": "#a50026",
    "non-finite": "#5e0b15",
    "noisy": "#a6d854",
}
SETTINGS: Any = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",  # text stays text: sharp, small, searchable
    "svg.hashsalt": "autotune",  # ids do not change from run to run
    "figure.constrained_layout.use": True,
}
WIDTH, HEIGHT = 7.0, 4.0  # inches
FEW_DECADES = 300.0
TAIL = 7  # characters at the end of a name that is shortened
STYLES = ("-", "--", ":", "-.")


def figure_of(rows: int = 1, columns: int = 1, *, height: float = HEIGHT, width: float = WIDTH) -> tuple[Figure, Any]:
    """A figure and its axes, as a 2-D array; not known to pyplot, so that nothing global is touched."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Title and axes, units included."""
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def scale_log(axis: XAxis | YAxis, unit: str = "") -> None:
    """A logarithmic axis, ticks such as ``2 ms`` or ``5``: at 1, 2 and 5 where powers of ten alone would be few."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    form: Any = EngFormatter(unit=unit) if unit else "{x:g}"
    few = low > 0 and high / low < FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(form if low > 0 and high / low < 2.5 else "")


def colour_of(index: int) -> str:
    """The colour of the n-th series."""
    return COLOURS[index % len(COLOURS)]


def marker_of(index: int) -> str:
    """The marker of the n-th series: with `colour_of` no two of the first thirty are alike."""
    return MARKERS[index % len(MARKERS)]


def style_of(index: int) -> str:
    """The line style of the n-th series: another one each time the colours begin again."""
    return STYLES[index // len(COLOURS) % len(STYLES)]


def legend(axes: Axes, *, outside: bool = False, columns: int = 1) -> None:
    """The legend, beside the axes where it would hide something."""
    if not axes.get_legend_handles_labels()[0]:
        return
    if outside:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=columns)
    else:
        axes.legend(ncols=columns)


def shorten(names: Iterable[str], length: int = 28) -> list[str]:
    """Names that fit a legend: the middle goes, for tags that begin alike end in different hashes."""
    return [name if len(name) <= length else f"{name[: length - TAIL - 1]}…{name[-TAIL:]}" for name in names]
