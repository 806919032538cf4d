"""Common style of all plots: size, colour-blind-safe colours, units on the axes."""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator

# Okabe and Ito, "Color Universal Design", 2008; without yellow, which is faint on white, and black
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = "osD^vPX*<>"
GREY = "#8a8a8a"
INK = "#222222"  # of text and axes
GRID = "#b0b0b0"
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
# Replacements on a dark page; a colour that is not listed is legible on both.
DARK = {
    "#0072B2": "#4DA6E0",
    "#D55E00": "#F0803C",
    "#009E73": "#2FC297",
    "#3a92c9": "#5FAEDD",
    "#003f6b": "#8FB8DA",
    "#a50026": "#F0566F",
    "#5e0b15": "#C96A7C",
    "#c0c0c0": "#5c5c64",
    GRID: "#7a7a84",
}
SETTINGS: Any = {
    "font.size": 9.5,
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,  # a dollar sign in a name is not a formula
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.6,
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
WIDTH, HEIGHT = 6.4, 4.0  # inches, of every figure
FEW_DECADES = 300.0
MOST_BARS = 12  # legible bars in one figure
MOST_SERIES = 14  # entries that fit in a legend below the axes
TAIL = 12  # characters kept at the end of a shortened name
STYLES = ("-", "--", ":", "-.")


class UnitFormatter(EngFormatter):
    """Formatter of ticks with a unit; microseconds are spelled ``us`` as in all text."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Format the tick of a value."""
        return super().__call__(x, pos).replace("\N{MICRO SIGN}", "u")


def figure_of(rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """Create a figure of the common size and a 2-D array of axes, without pyplot and its global state."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def head(figure: FigureBase, title: str) -> None:
    """Set the title of a figure."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=SETTINGS["axes.titlesize"], fontweight="bold")


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Set the title of a figure with one pair of axes, and their labels, which include units."""
    head(axes.figure, title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def scale_log(axis: XAxis | YAxis, unit: str = "") -> None:
    """Make an axis logarithmic with ticks such as ``2 ms`` or ``5``, at 1, 2 and 5 if it spans few decades."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    form: Any = UnitFormatter(unit=unit) if unit else "{x:g}"
    few = low > 0 and high / low < FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(form if low > 0 and high / low < 2.5 else "")


def colour_of(index: int) -> str:
    """Return the colour of the series with an index."""
    return COLOURS[index % len(COLOURS)]


def marker_of(index: int) -> str:
    """Return the marker of the series with an index; the first thirty pairs of marker and colour are distinct."""
    return MARKERS[index % len(MARKERS)]


def style_of(index: int) -> str:
    """Return the line style of the series with an index, which changes when the colours repeat."""
    return STYLES[index // len(COLOURS) % len(STYLES)]


def legend(axes: Axes, *, below: bool = False) -> None:
    """Add a legend inside the axes, or in two columns below them, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    if not below:
        axes.legend()
        return
    if len(handles) > MOST_SERIES:
        more = f"and {len(handles) - MOST_SERIES + 1} more"
        handles, names = [*handles[: MOST_SERIES - 1], Line2D([], [], ls="")], [*names[: MOST_SERIES - 1], more]
    legend_below(axes.figure, handles, names)


def legend_below(figure: FigureBase, handles: Sequence[Artist], names: Sequence[str], columns: int = 2) -> None:
    """Add a legend below all axes of a figure."""
    size = 8.5 if len(handles) <= 2 * columns else 7.5
    figure.legend(handles, names, loc="outside lower left", ncols=columns, fontsize=size, labelspacing=0.25)


def shorten(names: Iterable[str], length: int = 46) -> list[str]:
    """Shorten names for a legend by cutting out the middle, since similar names differ at their ends."""
    return [name if len(name) <= length else f"{name[: length - TAIL - 1]}…{name[-TAIL:]}" for name in names]
