"""First section of a store's page: results of its runs."""

from dataclasses import dataclass
from typing import Annotated

import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from autotune.core.console import duration
from autotune.core.stats import Interval
from autotune.reports.compared import Error, Factor, Share, interval_of
from autotune.reports.format import factor, plural
from autotune.reports.holdings import Holdings
from autotune.reports.overview import phase_seconds
from autotune.reports.pictures.gallery import draw_history
from autotune.reports.sections.blocks import (
    Block,
    DataTable,
    Gallery,
    Paragraph,
    Section,
    TableCell,
    TableColumn,
    TableRow,
    Tile,
    Tiles,
)
from autotune.reports.sections.cells import error_cell, share_cell, time_cell
from autotune.store.records import Seconds

ANCHOR, TITLE = "gained", "Outcomes of the search"
Label = Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True)
class RunBest:
    """Winner of a finished run: time in seconds per call, and share of the FMA roof."""

    seconds: Seconds
    roof_fraction: Share | None


@dataclass(frozen=True)
class RunBaseline:
    """Baseline of a finished run, by its name."""

    name: Label


@dataclass(frozen=True)
class RunMachine:
    """Host of a finished run, by its processor model."""

    cpu: Label


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as `autotune.tuning.result.TuneResult.to_json` describes it in a store.

    Attributes:
        payload: Name of the payload.
        machine: The host.
        baseline: Baseline of the speed-up.
        best: The winner.
        speedup: Time of the baseline over that of the winner; `None` without a baseline.
        speedup_interval: 95 % interval of the speed-up.
        max_error: Largest absolute difference to the oracle.
        unproved: Whether the payload was imported, and its plain lowering was the only oracle.
    """

    payload: Label
    machine: RunMachine
    baseline: RunBaseline
    best: RunBest
    speedup: Factor | None
    speedup_interval: tuple[Factor, Factor] | None
    max_error: Error | None
    unproved: bool = False

    @property
    def factor(self) -> Interval | None:
        """Speed-up with its interval; `None` without one."""
        return interval_of(self.speedup, self.speedup_interval)


RUN: TypeAdapter[FinishedRun] = TypeAdapter(FinishedRun)


def search_outcomes(holdings: Holdings, checks: pd.DataFrame | None) -> Section:
    """Return the section with a store's totals, the latest run of every payload, and regression checks."""
    blocks: list[Block] = [Tiles(headline(holdings.frame))]
    runs = newest_runs(holdings)
    blocks.append(run_table(runs) if runs else Paragraph("No run of autotune tune on this store has finished."))
    history = list(draw_history(checks)) if checks is not None else []
    return Section(ANCHOR, TITLE, [*blocks, *([Gallery(history)] if history else [])])


def headline(frame: pd.DataFrame) -> list[Tile]:
    """Return key figures: number of tasks and trials, share of successful trials, and the workers' time."""
    tasks = len(frame[["payload", "task"]].drop_duplicates())
    right = float((frame["outcome"] == "ok").mean()) if len(frame) else 0.0
    spent = sum(phase_seconds(frame).values())
    rate = f"{len(frame) / spent:.2g} trials a second" if spent else "not recorded"
    return [
        Tile("tasks", str(tasks), f"of {plural(frame['payload'].nunique(), 'payload')}"),
        Tile("trials", str(len(frame)), f"{right:.0%} of them right"),
        Tile("workers' time", duration(spent), rate),
    ]


def newest_runs(holdings: Holdings) -> list[FinishedRun]:
    """Return the latest finished run of every payload; summaries of another form are ignored."""
    runs: dict[str, FinishedRun] = {}
    for summary in holdings.summaries:
        try:
            run = RUN.validate_python(summary)
        except ValidationError:
            continue
        runs[run.payload] = run
    return list(runs.values())


def run_table(runs: list[FinishedRun]) -> DataTable:
    """Return a table of runs with one row per payload."""
    heads = ("payload", "time of a call", "over the baseline", "of the FMA roof", "largest error", "machine")
    columns = [TableColumn(head, head not in ("payload", "machine")) for head in heads]
    caption = "What the newest run of every payload came to; brackets are 95 % intervals."
    return DataTable(caption, columns, [run_row(run) for run in runs])


def run_row(run: FinishedRun) -> TableRow:
    """Return the row of a run."""
    cells = [
        TableCell(run.payload),
        time_cell(run.best.seconds),
        TableCell(f"{factor(run.factor)}, {run.baseline.name}", run.speedup),
        share_cell(run.best.roof_fraction),
        error_cell(run.max_error, unproved=run.unproved),
        TableCell(run.machine.cpu),
    ]
    return TableRow(cells)
