"""What all pictures look like: size, colours that the colour-blind can tell apart, units on the axes."""

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
# What a dark page paints instead; a colour that is not here is as clear on black as on white
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
    "text.parse_math": False,  # names are names: a dollar sign in one is no formula
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
WIDTH, HEIGHT = 6.4, 4.0  # inches, of every picture: side by side they line up
FEW_DECADES = 300.0
MOST_BARS = 12  # that one below the other can be read
MOST_SERIES = 14  # that a legend below the axes has room for
TAIL = 12  # characters at the end of a name that is shortened
STYLES = ("-", "--", ":", "-.")


class UnitFormatter(EngFormatter):
    """Ticks with a unit, microseconds spelled ``us`` as in all text."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The tick at a position."""
        return super().__call__(x, pos).replace("\N{MICRO SIGN}", "u")


def figure_of(rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure of the one size and its axes, as a 2-D array; not known to pyplot, so that nothing global is touched."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def head(figure: FigureBase, title: str) -> None:
    """The title of a figure."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=SETTINGS["axes.titlesize"], fontweight="bold")


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """The title of a figure with one pair of axes, and what they show, units included."""
    head(axes.figure, title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def scale_log(axis: XAxis | YAxis, unit: str = "") -> None:
    """A logarithmic axis, ticks such as ``2 ms`` or ``5``: at 1, 2 and 5 where powers of ten alone would be few."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    form: Any = UnitFormatter(unit=unit) if unit else "{x:g}"
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


def legend(axes: Axes, *, below: bool = False) -> None:
    """The legend: inside the axes, or in two columns below them where it would hide something."""
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
    """A legend below all axes of a figure."""
    size = 8.5 if len(handles) <= 2 * columns else 7.5
    figure.legend(handles, names, loc="outside lower left", ncols=columns, fontsize=size, labelspacing=0.25)


def shorten(names: Iterable[str], length: int = 46) -> list[str]:
    """Names that fit a legend: the middle goes, for names that begin alike end in what tells them apart."""
    return [name if len(name) <= length else f"{name[: length - TAIL - 1]}…{name[-TAIL:]}" for name in names]
