"""Second section: where a call's time goes, and what each technique is worth."""

from collections.abc import Mapping, Sequence

from autotune.core.console import duration
from autotune.reports.ablation import Measured
from autotune.reports.explain import Explanation
from autotune.reports.format import factor, size
from autotune.reports.pictures.winner import draw_budget, draw_techniques
from autotune.reports.sections.blocks import (
    Block,
    DataTable,
    Facts,
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


def shares_of_calls(
    lines: Sequence[TaskLine], wholes: Mapping[str, float], explanation: Explanation | None = None
) -> Section:
    """One picture and one table a payload; then what each technique is worth, if that was measured.

    Args:
        lines: Tasks of all payloads.
        wholes: Seconds of one call by payload; without it, the tasks together stand for a call.
        explanation: What was measured of the techniques.
    """
    payloads = list(dict.fromkeys(line.payload for line in lines))
    blocks: list[Block] = []
    for payload in payloads:
        mine = [line for line in lines if line.payload == payload]
        blocks += [Heading(payload)] if len(payloads) > 1 else []
        blocks.append(call_block(mine, payload, wholes.get(payload)))
    if explanation is not None:
        blocks += technique_blocks(explanation)
    return Section(ANCHOR, TITLE, blocks)


def call_block(lines: Sequence[TaskLine], payload: str, whole: float | None) -> Block:
    """The picture and the table of one payload's tasks."""
    known = [line for line in lines if line.call_seconds]
    together = sum(line.call_seconds or 0.0 for line in known)
    if not known:
        return Paragraph("How often a call runs each task is not known: the payload cannot be built here.")
    total = whole or together
    timed = [(line.name, line.count or 0, line.seconds.estimate) for line in known if line.seconds]
    said = f"Tasks timed alone; together they take {duration(together)}"
    said += f", {together / total:.0%} of a call of the whole." if whole else ", which stands for a call here."
    heads = ("task", "runs", "each", "together", "of a call")
    rows = [share_row(line, total) for line in sorted(known, key=lambda line: -(line.call_seconds or 0.0))]
    table = DataTable(said, [TableColumn(head, head != "task") for head in heads], rows)
    return Gallery(list(draw_budget(payload, total, timed)), table)


def share_row(line: TaskLine, whole: float) -> TableRow:
    """The cells of a task."""
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


def technique_blocks(found: Explanation) -> list[Block]:
    """What each technique is worth, and what the winner does to the machine."""
    rows = [(row.name, row.factor) for row in found.rows[1:] if row.tasks and row.factor]
    heads = ("program", "time of a call", "times as long")
    body = [technique_row(row) for index, row in enumerate(found.rows) if index == 0 or row.tasks]
    caption = "The winner without one technique at a time, interleaved; brackets are 95 % intervals."
    table = DataTable(caption, [TableColumn(head, head != "program") for head in heads], body)
    facts = counted(found)
    pictures = list(draw_techniques(found.payload, rows))
    return [Heading("What each technique is worth"), Gallery(pictures, table), *([Facts(facts)] if facts else [])]


def technique_row(row: Measured) -> TableRow:
    """The cells of a variant of the winner."""
    seconds = row.seconds.estimate if row.seconds else None
    cells = [
        TableCell(f"without {row.name}" if row.tasks else row.name),
        time_cell(seconds) if seconds else TableCell(row.outcome),
        TableCell(factor(row.factor), row.factor.estimate if row.factor else None),
    ]
    return TableRow(cells)


def counted(found: Explanation) -> dict[str, str]:
    """Hardware events a call and bytes of the winner, where they were measured."""
    facts: dict[str, str] = {}
    if found.counts is not None:
        facts |= {name: f"{count:.4g} a call" for name, count in found.counts.events.items()}
        facts |= {"hardware counters": found.counts.missing} if found.counts.missing else {}
    if found.memory is not None:
        facts |= {name.replace("_", " "): size(count) for name, count in vars(found.memory).items()}
    return facts
