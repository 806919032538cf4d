"""Section of a bundle's page with the ablation study of its winner."""

from collections.abc import Iterator, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from autotune.contrib.explain.ablation import Measured
from autotune.contrib.explain.explanation import Explanation
from autotune.core.stats import Interval
from autotune.reports.format import factor, size
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import GREY, SETTINGS, colour_of, figure_of, label, legend, scale_log
from autotune.reports.sections.blocks import (
    DataTable,
    Facts,
    Gallery,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from autotune.reports.sections.cells import time_cell

ANCHOR, TITLE = "techniques", "What each technique is worth"


def techniques_of(explanation: Explanation) -> Section:
    """Return the section with the ablation study, hardware counters and memory use."""
    rows = [(row.name, row.factor) for row in explanation.rows[1:] if row.tasks and row.factor]
    heads = ("program", "time of a call", "times as long")
    body = [technique_row(row) for index, row in enumerate(explanation.rows) if index == 0 or row.tasks]
    caption = "The winner without one technique at a time, interleaved; brackets are 95 % intervals."
    table = DataTable(caption, [TableColumn(head, head != "program") for head in heads], body)
    facts = counted(explanation)
    pictures = list(draw_techniques(explanation.payload, rows))
    return Section(ANCHOR, TITLE, [Gallery(pictures, table), *([Facts(facts)] if facts else [])])


def technique_row(row: Measured) -> TableRow:
    """Return the table row of a variant."""
    seconds = row.seconds.estimate if row.seconds else None
    cells = [
        TableCell(f"without {row.name}" if row.tasks else row.name),
        time_cell(seconds) if seconds else TableCell(row.outcome),
        TableCell(factor(row.factor), row.factor.estimate if row.factor else None),
    ]
    return TableRow(cells)


def counted(explanation: Explanation) -> dict[str, str]:
    """Return hardware events per call and memory use of the winner, as far as they were measured."""
    facts: dict[str, str] = {}
    if explanation.counts is not None:
        facts |= {name: f"{count:.4g} a call" for name, count in explanation.counts.events.items()}
        facts |= {"hardware counters": explanation.counts.missing} if explanation.counts.missing else {}
    if explanation.memory is not None:
        facts |= {name.replace("_", " "): size(count) for name, count in vars(explanation.memory).items()}
    return facts


def draw_techniques(payload: str, rows: Sequence[tuple[str, Interval]]) -> Iterator[Picture]:
    """Draw the slowdown without each technique; yield nothing if there are no rows."""
    if rows:
        name, factor = max(rows, key=lambda row: row[1].estimate)
        caption = f"How many times as long a call takes without each technique. Most, {factor.estimate:.3g}x: {name}."
        with mpl.rc_context(SETTINGS):
            yield Picture(f"{plain_name(payload)}-techniques", caption, figure_of_techniques(rows))


def figure_of_techniques(rows: Sequence[tuple[str, Interval]]) -> Figure:
    """Plot the ratio of the time without each technique to that of the winner, with 95 % intervals.

    Args:
        rows: Names of the techniques, and ratios.
    """
    names, factors = [name for name, _ in rows], [factor for _, factor in rows]
    middle = [factor.estimate for factor in factors]
    errors = [[f.estimate - f.low for f in factors], [f.high - f.estimate for f in factors]]
    figure, ((axes,),) = figure_of()
    style = {"fmt": "o", "color": colour_of(0), "capsize": 3, "label": "median and 95 % interval"}
    axes.errorbar(middle, np.arange(len(names)), xerr=errors, **style)
    axes.axvline(1.0, color=GREY, ls="--", lw=0.8, label="no difference")
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    scale_log(axes.xaxis)
    label(axes, "What each technique is worth", "time without it / time of the winner", "")
    legend(axes, below=True)
    return figure
