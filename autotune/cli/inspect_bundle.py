"""Output of `inspect` for a bundle: a summary, then one row per task with the knobs that the search chose."""

from collections.abc import Sequence

from rich.console import Console

from autotune.cli.inspect_store import LEGEND, config_text, spell
from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
from autotune.core.console import duration
from autotune.reports.format import above_roof, agreement, error_beside, out, percent, roof_text, size, times, uncovered
from autotune.reports.headline import headline, over_naive
from autotune.reports.overview import changed_config
from autotune.reports.task_lines import TaskLine
from autotune.reports.winner import Winner

COLUMNS = (Column("runs"), Column("time"), Column("call"), Column("roof"), Column("speed-up"))


def show_winner(winner: Winner, tasks: Sequence[TaskLine], *, full: bool = False) -> None:
    """Print the summary of a bundle.

    Args:
        winner: Summary from the manifest.
        tasks: Summaries of the tasks.
        full: Whether to print all knobs, not only those that differ from the default config.
    """
    console = out()
    seconds = winner.seconds.estimate
    lead = headline(
        winner.payload,
        seconds,
        clock=winner.clock,
        share=winner.roof_fraction,
        floor=winner.noise_floor,
        unsteady=winner.unsteady,
        rounded=bool(winner.rounded),
    )
    show_sentence(console, lead)
    over = [] if winner.unsteady else [over_naive(winner.speedup, winner.baseline, winner.baseline_seconds)]
    error = error_beside(winner.max_error, winner.oracle, unproved=winner.unproved)
    show_sentence(console, "; ".join([*over, error, f"{winner.cpu}, {winner.isa}"]), 2)
    whole = None if winner.unsteady else seconds
    rows = tuple(task_row(task, whole, full=full) for task in tasks)
    show_table(console, Table("task", COLUMNS, (*rows, *rest_row(tasks, whole)), "" if full else "not as by default"))
    units = "the roof of its unit" if winner.rounded else "the FMA roof"
    legend = f"call: share of a call; roof: share of {units}; "
    legend += f"speed-up: over the naive lowering ({winner.baseline})"
    show_sentence(console, legend if full or all(row.text for row in rows) else f"{legend}; {LEGEND}", 2)
    if (above := above_roof(task.roof_fraction for task in tasks)) and not winner.unsteady:
        show_sentence(console, above, 2)
    if winner.rounded:
        show_budget(console, winner)
    if sentence := uncovered([(each.name, each.why, each.share) for each in winner.uncovered]):
        show_sentence(console, sentence, 2)
    for note in winner.notes:
        show_sentence(console, f"note: {note}", 2)
    if winner.buffers and winner.buffers["count"]:
        peak, naive = (size(winner.buffers[name]) for name in ("peak_bytes", "naive_bytes"))
        show_sentence(console, f"arena {peak} for {winner.buffers['count']} buffers ({naive} separately)", 2)


def show_budget(console: Console, winner: Winner) -> None:
    """Print how the error budget was spent, task by task."""
    rows = []
    for task in winner.rounded:
        others = ", ".join(f"{name} {duration(seconds)}" for name, seconds in task.seconds_in.items())
        rows.append(TextRow(task.name, (task.family, duration(task.seconds), f"{task.error:.1e}"), others))
    show_table(
        console, Table("task", (Column("precision"), Column("in all"), Column("error")), tuple(rows), "otherwise")
    )
    spent = f"error of the whole {winner.spent:.2g}, {winner.error:g} allowed, of the largest value of an output"
    show_sentence(console, f"{spent}; a task's: with it rounded alone; in all: its share of a call", 2)
    agrees, wanted, of_rows = winner.agreement
    if of_rows:
        show_sentence(console, agreement(agrees, wanted, of_rows), 2)


def task_row(task: TaskLine, whole: float | None, *, full: bool) -> TextRow:
    """Return the row of a task: runs per call, time of a run, shares of the call and of the roof, speed-up.

    Args:
        task: Summary of the task.
        whole: Seconds of one call; `None` if times are not reliable.
        full: Whether to print all knobs.
    """
    of_call = percent(task.call_seconds / whole if task.call_seconds and whole else None)
    seconds = duration(task.seconds.estimate if task.seconds and whole else None)
    roof, speedup = (roof_text(task.roof_fraction), times(task.over_baseline)) if whole else ("-", "-")
    text = task_text(task, full=full)
    cells = (str(task.count), seconds, of_call, roof, speedup)
    return TextRow(task.name, cells, f"{task.tag}\n{text}" if full and task.name != task.tag else text)


def rest_row(tasks: Sequence[TaskLine], whole: float | None) -> list[TextRow]:
    """Return the row of the time outside tasks; empty if the tasks take the whole call, or one of them has no time.

    Args:
        tasks: Summaries of the tasks.
        whole: Seconds of one call; `None` if times are not reliable.
    """
    known = [task.call_seconds for task in tasks if task.call_seconds]
    if not whole or not known or len(known) < len(tasks) or sum(known) >= whole:
        return []
    left = whole - sum(known)
    return [TextRow("rest", ("", duration(left), percent(left / whole), "", ""), "outside of tasks, or cold caches")]


def task_text(task: TaskLine, *, full: bool) -> str:
    """Return the family and the knobs that differ from its default; all knobs if `full` or the default is unknown."""
    if task.family is None or task.config is None:
        return "plain lowering"
    if task.default is None:
        return f"{task.family}: {spell(task.config)} (default not known here)"
    return config_text(task.family, task.config, changed_config(task.config, task.default), full=full)
