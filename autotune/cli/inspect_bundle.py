"""What `inspect` shows of a bundle: the whole, then a line a task, and below it what the search chose."""

from collections.abc import Sequence

from rich.console import Console

from autotune.cli.inspect_store import LEGEND, config_text, spell
from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
from autotune.reports.format import (
    above_roof,
    agreement,
    duration,
    error_beside,
    factor,
    out,
    percent,
    size,
    time_span,
    times,
    uncovered,
)
from autotune.reports.overview import changed_config
from autotune.reports.task_lines import TaskLine
from autotune.reports.winner import Winner

COLUMNS = (Column("runs"), Column("time"), Column("call"), Column("roof"), Column("gain"))


def show_winner(winner: Winner, tasks: Sequence[TaskLine], *, full: bool = False) -> None:
    """Print a bundle at a glance.

    Args:
        winner: What the manifest says of the whole.
        tasks: What is known of its tasks.
        full: Print every knob, not only what differs from the default config.
    """
    console = out()
    share = f", {percent(winner.roof_fraction)} of the FMA roof" if winner.roof_fraction else ""
    show_sentence(console, f"{winner.payload}: {time_span(winner.seconds)}{share}")
    over = f"{factor(winner.speedup)} over {winner.baseline} ({duration(winner.baseline_seconds)})"
    error = error_beside(winner.max_error, winner.oracle, unproved=winner.unproved)
    show_sentence(console, f"{over}, {error}; {winner.cpu}, {winner.isa}", 2)
    rows = tuple(task_row(task, winner.seconds.estimate, full=full) for task in tasks)
    show_table(console, Table("task", COLUMNS, rows, "" if full else "not as by default"))
    legend = f"call: share of a call; roof: share of the FMA roof; gain: over {winner.baseline}"
    show_sentence(console, legend if full or all(row.text for row in rows) else f"{legend}; {LEGEND}", 2)
    if above := above_roof(task.roof_fraction for task in tasks):
        show_sentence(console, above, 2)
    if winner.rounded:
        show_budget(console, winner)
    if said := uncovered([(each.name, each.why, each.share) for each in winner.uncovered]):
        show_sentence(console, said, 2)
    for note in winner.notes:
        show_sentence(console, f"note: {note}", 2)
    if winner.buffers and winner.buffers["count"]:
        peak, naive = (size(winner.buffers[name]) for name in ("peak_bytes", "naive_bytes"))
        show_sentence(console, f"arena {peak} for {winner.buffers['count']} buffers ({naive} separately)", 2)


def show_budget(console: Console, winner: Winner) -> None:
    """Print what became of the error budget, task by task."""
    rows = []
    for task in winner.rounded:
        others = ", ".join(f"{name} {duration(seconds)}" for name, seconds in task.seconds_in.items())
        rows.append(TextRow(task.name, (task.precision, duration(task.seconds), f"{task.error:.1e}"), others))
    show_table(
        console, Table("task", (Column("precision"), Column("in all"), Column("error")), tuple(rows), "otherwise")
    )
    spent = f"error of the whole {winner.spent:.2g}, {winner.error:g} allowed, of the largest value of an output"
    show_sentence(console, f"{spent}; a task's: with it rounded alone; in all: its share of a call", 2)
    agrees, wanted, of_rows = winner.agreement
    if of_rows:
        show_sentence(console, agreement(agrees, wanted, of_rows), 2)


def task_row(task: TaskLine, whole: float, *, full: bool) -> TextRow:
    """A task: how often a call runs it, what one run takes, its share of a call and of the roof, its gain."""
    of_call = percent(task.call_seconds / whole if task.call_seconds else None)
    seconds = duration(task.seconds.estimate if task.seconds else None)
    cells = (str(task.count), seconds, of_call, percent(task.roof_fraction), times(task.over_baseline))
    text = task_text(task, full=full)
    return TextRow(task.name, cells, f"{task.tag}\n{text}" if full and task.name != task.tag else text)


def task_text(task: TaskLine, *, full: bool) -> str:
    """The family and the knobs that differ from its default config; all of them if `full` or if that is not known."""
    if task.family is None or task.config is None:
        return "plain lowering"
    if task.default is None:
        return f"{task.family}: {spell(task.config)} (default not known here)"
    return config_text(task.family, task.config, changed_config(task.config, task.default), full=full)
