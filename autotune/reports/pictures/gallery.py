"""All plots of a store, with their names and captions, and their output as PNG or SVG."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from autotune.core.host.machine import Roofs
from autotune.core.host.whole_file import whole_file
from autotune.reports.holdings import Holdings
from autotune.reports.importance import knob_importance
from autotune.reports.overview import phase_seconds
from autotune.reports.pictures import course, knobs, past
from autotune.reports.pictures.energy import energy
from autotune.reports.pictures.roofline import roofline
from autotune.reports.pictures.style import DARK, INK, SETTINGS

DPI = 140
METADATA = ("Date", "Creator", "Format", "Type")  # left out of plots in a page
ATTRIBUTE = re.compile(r'\b(d|x|y|x1|x2|y1|y2|width|height|transform|points)="([^"]*)"')
TAG = re.compile(r"<[^>]+>")  # text between tags, such as names from outside, is never touched
STYLE = re.compile(r'\bstyle="[^"]*"')
ID = re.compile(r'(\bid="|\bhref="#|url\(#)')
BEGIN, END = 'style="', '"'
FREQUENT = 8  # occurrences of a style from which it becomes a class
FONT = "'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Picture:
    """A plot with its caption.

    Attributes:
        name: Name of its file, without a suffix.
        caption: Sentence on what it shows, also used as alternative text.
        figure: The figure, of the common size.
    """

    name: str
    caption: str
    figure: Figure


def draw_all(holdings: Holdings) -> Iterator[Picture]:
    """Yield all plots that there is data for, by payload; tasks have their readable names."""
    for payload, rows in holdings.frame.groupby("payload", sort=False):
        names = holdings.names(str(payload))
        yield from draw_search(str(payload), rows, holdings.roofs, names)
        for task, trials in rows.groupby("task", sort=False):
            yield from draw_knobs(str(payload), str(task), trials, names[str(task)])


def draw_search(payload: str, rows: pd.DataFrame, roofs: Roofs | None, names: Mapping[str, str]) -> Iterator[Picture]:
    """Yield the plots of one payload's search, with all tasks together.

    Args:
        payload: Name of the payload.
        rows: Trials of the payload.
        roofs: Roofs of its machine; if `None`, the roofline is left out.
        names: Readable name of every task, by tag.
    """
    name = plain_name(payload)
    shown = rows.assign(task=rows["task"].map(dict(names)).astype("string"))
    with mpl.rc_context(SETTINGS):
        if (rows["outcome"] == "ok").any():
            caption = "The best so far after each trial, task by task."
            yield Picture(f"{name}-best-over-trials", caption, course.best_over_trials(shown))
            caption = "The best so far over the time that workers took."
            yield Picture(f"{name}-best-over-seconds", caption, course.best_over_seconds(shown))
            caption = f"How good configs are: half take {middle_of(rows):.3g} times as long as the best, or longer."
            yield Picture(f"{name}-distribution", caption, course.distribution(shown))
            caption = "What a config costs to compile, and how fast it is."
            yield Picture(f"{name}-costs", caption, course.costs(shown))
            if rows["joules"].notna().any():
                caption = "Seconds and joules of every config, and those that no other one beats in both."
                yield Picture(f"{name}-energy", caption, energy(shown))
            figure = roofline(shown, roofs) if roofs is not None else None
            if figure is not None:
                yield Picture(f"{name}-roofline", "How far every trial is from what the machine can do.", figure)
        caption = f"Outcomes of trials, in the order of the search: {outcome_counts(rows)}."
        yield Picture(f"{name}-outcomes", caption, course.outcomes(shown))
        yield Picture(f"{name}-phases", f"Where the time of the search went: {most_spent(rows)}.", course.phases(shown))


def middle_of(rows: pd.DataFrame) -> float:
    """Return the median over successful trials of their time relative to the best of their task."""
    right = rows[rows["outcome"] == "ok"]
    return float((right["seconds_normalised"] / right.groupby("task")["seconds_normalised"].transform("min")).median())


def most_spent(rows: pd.DataFrame) -> str:
    """Return the phase that took most of the workers' time, and its share: ``47% to jit``."""
    spent = phase_seconds(rows)
    most = max(spent, key=lambda phase: spent[phase])
    return f"{spent[most] / (sum(spent.values()) or 1.0):.0%} to {most}"


def outcome_counts(rows: pd.DataFrame) -> str:
    """Return the number of trials by outcome: ``57 ok, 3 crashed``."""
    return ", ".join(f"{count} {outcome}" for outcome, count in rows["outcome"].value_counts().items())


def draw_knobs(payload: str, task: str, rows: pd.DataFrame, title: str) -> Iterator[Picture]:
    """Yield the plots of one task's knobs.

    Args:
        payload: Name of the payload.
        task: Tag of the task.
        rows: Trials of the task.
        title: Readable name of the task.
    """
    name = plain_name(payload)
    end = f"{name}-{plain_name(task)}" if name != plain_name(task) else name
    shares = knob_importance(rows)
    with mpl.rc_context(SETTINGS):
        if shares:
            first = next(iter(shares))
            caption = f"Which knobs matter. Most, {shares[first]:.0%}: {first}."
            yield Picture(f"{end}-importance", caption, knobs.importance(title, shares))
        plot = knobs.slices(title, rows, list(shares))
        if plot is not None:
            yield Picture(f"{end}-slices", "Time with each value of a knob, the others as the search left them.", plot)
        if len(shares) > 1:
            first, second, *_ = shares
            caption = f"The best time with every two values of {first} and {second}."
            yield Picture(f"{end}-pair", caption, knobs.pair(title, rows, first, second))


def draw_history(checks: pd.DataFrame) -> Iterator[Picture]:
    """Yield the plots of regression checks, with up to `past.MOST_PANELS` payloads each; none without checks."""
    payloads = list(dict.fromkeys(checks["payload"]))
    for start in range(0, len(payloads), past.MOST_PANELS):
        some = checks[checks["payload"].isin(payloads[start : start + past.MOST_PANELS])]
        name = "history" if start == 0 else f"history-{start // past.MOST_PANELS + 1}"
        caption = "Speed-ups that autotune regress --update accepted, and its verdicts."
        with mpl.rc_context(SETTINGS):
            yield Picture(name, caption, past.history(some))


def plain_name(text: str) -> str:
    """Convert a payload's or task's name to a part of a file name."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_")


def save_all(pictures: Iterable[Picture], folder: Path) -> list[Path]:
    """Write plots as PNG files, each as soon as it is drawn; return their paths.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in pictures:
        path = folder / f"{picture.name}.png"
        with mpl.rc_context(SETTINGS), whole_file(path) as fresh:
            picture.figure.savefig(fresh, dpi=DPI)
        paths.append(path)
    return paths


def to_svg(figure: Figure, prefix: str = "") -> str:
    """Convert a figure to an ``<svg>`` element for a page: transparent, with the page's font and colours.

    Text and axes have the colour of the page's text. A colour ``#0072b2`` of `DARK` becomes the CSS variable
    ``--c0072b2``, whose fallback is the colour itself.

    Args:
        figure: The figure.
        prefix: Prefix of its ids, so that ids of several figures in one page are distinct.
    """
    buffer = io.StringIO()
    with mpl.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(METADATA))
    text = buffer.getvalue()
    text = TAG.sub(lambda tag: adapted(tag[0], prefix), text[text.index("<svg") :])
    return with_classes(text, prefix)


def adapted(tag: str, prefix: str) -> str:
    """Adapt an SVG tag to a page: prefixed ids, rounded coordinates, the page's colours and font."""
    tag = ID.sub(rf"\g<1>{prefix}", tag)
    tag = ATTRIBUTE.sub(lambda match: f'{match[1]}="{rounded(match[2])}"', tag)
    return STYLE.sub(lambda match: themed(match[0]), tag)


def rounded(numbers: str) -> str:
    """Truncate coordinates to two digits after the point, a hundredth of a pixel."""
    return re.sub(r"(\.\d\d)\d+", r"\1", numbers)


def with_classes(svg: str, prefix: str) -> str:
    """Replace frequent styles of an SVG by classes, since every dot of a scatter plot repeats its style."""
    times = Counter(style for tag in TAG.findall(svg) for style in STYLE.findall(tag))
    frequent = (style for style, count in times.items() if count >= FREQUENT)
    names = {style: f"{prefix}s{index}" for index, style in enumerate(frequent)}
    rules = "".join(f".{name}{{{style.removeprefix(BEGIN).removesuffix(END)}}}" for style, name in names.items())

    def classed(tag: re.Match[str]) -> str:
        return STYLE.sub(lambda style: f'class="{names[style[0]]}"' if style[0] in names else style[0], tag[0])

    head, _, rest = TAG.sub(classed, svg).partition(">")
    return f"{head}><style>{rules}</style>{rest}"


def themed(style: str) -> str:
    """Replace colours and font in a style attribute by those of the page."""
    style = style.replace(INK, "currentColor").replace(FONT, "system-ui, sans-serif")
    for colour in DARK:
        style = style.replace(colour.lower(), f"var(--c{colour[1:].lower()}, {colour.lower()})")
    return style
