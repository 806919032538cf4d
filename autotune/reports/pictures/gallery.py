"""All pictures of a store: what each is called, what it says, and how it is written."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from autotune.core.machine import Roofs
from autotune.reports.holdings import Holdings
from autotune.reports.importance import knob_importance
from autotune.reports.pictures import course, knobs, past
from autotune.reports.pictures.roofline import roofline
from autotune.reports.pictures.style import INK, SETTINGS

DPI = 140


@dataclass(frozen=True)
class Picture:
    """One figure.

    Attributes:
        name: Of its file, without an ending.
        caption: What a reader should see in it.
        figure: The figure.
    """

    name: str
    caption: str
    figure: Figure


def draw_all(holdings: Holdings) -> Iterator[Picture]:
    """Every picture there is something to draw for, payload by payload."""
    for payload, rows in holdings.frame.groupby("payload", sort=False):
        with mpl.rc_context(SETTINGS):
            yield from draw_payload(plain_name(str(payload)), rows, holdings.roofs)


def draw_payload(name: str, rows: pd.DataFrame, roofs: Roofs | None) -> Iterator[Picture]:
    """Pictures of one payload's sweeps: of all tasks together, then of each task's knobs."""
    if (rows["outcome"] == "ok").any():
        yield Picture(f"{name}-best-over-trials", "The best so far after each trial.", course.best_over_trials(rows))
        said = "The best so far over the time workers took."
        yield Picture(f"{name}-best-over-seconds", said, course.best_over_seconds(rows))
        yield Picture(f"{name}-distribution", "How many configs are how good.", course.distribution(rows))
        yield Picture(f"{name}-costs", "What a config costs to compile, and how fast it is.", course.costs(rows))
        found = roofline(rows, roofs) if roofs is not None else None
        if found is not None:
            yield Picture(f"{name}-roofline", "How far every trial is from what the machine can do.", found)
    yield Picture(f"{name}-outcomes", "What became of the trials, in their order.", course.outcomes(rows))
    yield Picture(f"{name}-phases", "Where the time of the search went.", course.phases(rows))
    for task, mine in rows.groupby("task", sort=False):
        yield from draw_knobs(name, str(task), mine)


def draw_knobs(name: str, task: str, rows: pd.DataFrame) -> Iterator[Picture]:
    """Pictures of one task's knobs."""
    end = f"{name}-{plain_name(task)}" if name != plain_name(task) else name
    shares = knob_importance(rows)
    if shares:
        yield Picture(f"{end}-importance", f"Which knobs of {task} matter.", knobs.importance(task, shares))
    found = knobs.slices(task, rows, list(shares))
    if found is not None:
        yield Picture(f"{end}-slices", f"Time of {task} with each value of each knob.", found)
    if len(shares) > 1:
        first, second, *_ = shares
        said = f"The best time of {task} with every two values of its two weightiest knobs."
        yield Picture(f"{end}-pair", said, knobs.pair(task, rows, first, second))


def draw_history(checks: pd.DataFrame) -> Iterator[Picture]:
    """The picture of regression checks; none where there are no checks."""
    if len(checks):
        with mpl.rc_context(SETTINGS):
            said = "Speed-ups that autotune regress --update accepted, and what it said of them."
            yield Picture("history", said, past.history(checks))


def plain_name(text: str) -> str:
    """A payload's or task's name as part of a file name."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_")


def save_all(pictures: Iterable[Picture], folder: Path) -> list[Path]:
    """Write pictures as PNG, each as soon as it is drawn.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in pictures:
        path = folder / f"{picture.name}.png"
        with mpl.rc_context(SETTINGS):
            picture.figure.savefig(path, dpi=DPI)
        paths.append(path)
    return paths


def to_svg(figure: Figure, prefix: str = "") -> str:
    """A figure as an ``<svg>`` element for a page: no background, and the page's own colour for text and axes.

    Args:
        figure: The figure.
        prefix: Of its ids, so that those of several figures in one page differ.
    """
    buffer = io.StringIO()
    with mpl.rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{prefix}", text[text.index("<svg") :])
    return text.replace(INK, "currentColor")
