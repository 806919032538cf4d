"""Fourth section of the report: progress, outcomes and costs of the search."""

from collections.abc import Mapping

import pandas as pd

from autotune.core.console import duration
from autotune.reports.format import percent, plural
from autotune.reports.holdings import Holdings
from autotune.reports.overview import phase_seconds
from autotune.reports.pictures.gallery import draw_search
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
from autotune.reports.sections.cells import count_cell, time_cell
from autotune.store.frames import PHASES

ANCHOR, TITLE = "search", "How the search went"
NO_TRIALS = "A bundle holds no trials: name the store they are in, and they are drawn here (--store STORE)."
ELSEWHERE = "These trials were made on another machine, or with another compiler, than the bundle."


def search_of(holdings: Holdings, names: Mapping[str, Mapping[str, str]], note: str = "") -> Section:
    """Return the section with progress, outcomes and costs of the search, by payload.

    Args:
        holdings: The trials.
        names: Readable names of tasks, by payload and tag; missing ones are derived from the tag.
        note: Note on these trials; empty for none.
    """
    groups = [(str(payload), rows) for payload, rows in holdings.frame.groupby("payload", sort=False)]
    blocks: list[Block] = [Paragraph(note)] if note else []
    for payload, rows in groups:
        task_names = {**holdings.names(payload), **names.get(payload, {})}
        blocks += [Heading(payload)] if len(groups) > 1 else []
        blocks.append(Paragraph(summary(rows)))
        blocks.append(Gallery(list(draw_search(payload, rows, holdings.roofs, task_names))))
        blocks.append(cost_table(rows, task_names))
    return Section(ANCHOR, TITLE, blocks or [Paragraph("The store holds no trials.")])


def no_search() -> Section:
    """Return the section for a bundle without trials."""
    return Section(ANCHOR, TITLE, [Paragraph(NO_TRIALS)])


def summary(rows: pd.DataFrame) -> str:
    """Return a sentence on the number of trials by outcome, and the workers' time."""
    ran = int((rows["outcome"] != "duplicate").sum())
    right = int((rows["outcome"] == "ok").sum())
    spent = sum(phase_seconds(rows).values())
    rate = f", {ran / spent:.2g} a second of the workers' time, {duration(spent)} in all" if spent else ""
    same, failed = len(rows) - ran, ran - right
    verified = f"{right} verified ({percent(right / ran)} of those that ran)" if ran else "none ran"
    twins = f", {plural(same, 'duplicate')}" if same else ""
    wrong = f", {failed} failed" if failed else ""
    return f"{plural(len(rows), 'trial')} of {plural(rows['task'].nunique(), 'task')}: {verified}{twins}{wrong}{rate}."


def cost_table(rows: pd.DataFrame, names: Mapping[str, str]) -> DataTable:
    """Return a table of tasks with trials, outcomes, and seconds of the workers' time by phase."""
    heads = ("task", "trials", "right", "failed", *PHASES, "in all")
    body = [cost_row(names[str(tag)], str(tag), trials) for tag, trials in rows.groupby("task", sort=False)]
    return DataTable(
        "Where the workers' time went, by task and phase.",
        [TableColumn(h, h not in ("task", "failed")) for h in heads],
        body,
    )


def cost_row(name: str, tag: str, rows: pd.DataFrame) -> TableRow:
    """Return the row of a task."""
    counts = rows["outcome"].value_counts()
    failed = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if outcome != "ok")
    spent = list(phase_seconds(rows).values())
    cells = [
        TableCell(name, title=tag),
        count_cell(len(rows)),
        count_cell(int(counts.get("ok", 0))),
        TableCell(failed or "-"),
        *(time_cell(seconds or None) for seconds in (*spent, sum(spent))),
    ]
    return TableRow(cells)
