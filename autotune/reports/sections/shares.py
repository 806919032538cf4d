"""Second section of the report: shares of a call's time by task."""

from collections.abc import Mapping, Sequence

from autotune.core.console import duration
from autotune.reports.pictures.winner import draw_budget
from autotune.reports.sections.blocks import (
    Block,
    DataTable,
    Gallery,
    Heading,
    Paragraph,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from autotune.reports.sections.cells import count_cell, share_cell, time_cell
from autotune.reports.sections.tasks import anchor_of
from autotune.reports.task_lines import TaskLine

ANCHOR, TITLE = "time", "Where a call's time goes"


def shares_of_calls(lines: Sequence[TaskLine], wholes: Mapping[str, float]) -> Section:
    """Return the section with a plot and a table for each payload.

    Args:
        lines: Lines of the tasks of all payloads.
        wholes: Seconds per call by payload; if a payload is missing, the sum of its tasks is used.
    """
    payloads = list(dict.fromkeys(line.payload for line in lines))
    blocks: list[Block] = []
    for payload in payloads:
        tasks = [line for line in lines if line.payload == payload]
        blocks += [Heading(payload)] if len(payloads) > 1 else []
        blocks.append(call_block(tasks, payload, wholes.get(payload)))
    return Section(ANCHOR, TITLE, blocks)


def call_block(lines: Sequence[TaskLine], payload: str, whole: float | None) -> Block:
    """Return the plot and the table of one payload's tasks."""
    known = [line for line in lines if line.call_seconds]
    together = sum(line.call_seconds or 0.0 for line in known)
    if not known:
        return Paragraph("How often a call runs each task is not known: the payload cannot be built here.")
    total = whole or together
    timed = [(line.name, line.count or 0, line.seconds.estimate) for line in known if line.seconds]
    caption = f"Tasks timed alone; together they take {duration(together)}"
    caption += f", {together / total:.0%} of a call of the whole." if whole else ", which stands for a call here."
    heads = ("task", "runs", "each", "together", "of a call")
    rows = [share_row(line, total) for line in sorted(known, key=lambda line: -(line.call_seconds or 0.0))]
    table = DataTable(caption, [TableColumn(head, head != "task") for head in heads], rows)
    return Gallery(list(draw_budget(payload, total, timed)), table)


def share_row(line: TaskLine, whole: float) -> TableRow:
    """Return the row of a task."""
    each = line.seconds.estimate if line.seconds else None
    share = (line.call_seconds or 0.0) / whole
    cells = [
        TableCell(line.name, anchor=anchor_of(line), title=line.tag),
        count_cell(line.count),
        time_cell(each),
        time_cell(line.call_seconds),
        share_cell(share),
    ]
    return TableRow(cells)
