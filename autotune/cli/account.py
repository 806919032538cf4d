"""What the terminal shows of a winner, and of why it is fast."""

from rich.table import Table

from autotune.reports.explain import Explanation
from autotune.reports.format import duration, factor, out, time_span
from autotune.reports.winner import Winner


def show_winner(winner: Winner) -> None:
    """A bundle at a glance: the whole, then a line a task."""
    console = out()
    share = f", {winner.roof_fraction:.1%} of the FMA roof" if winner.roof_fraction else ""
    console.print(f"{winner.payload}: {time_span(winner.seconds)}{share}", markup=False)
    over = f"{factor(winner.speedup)} over {winner.baseline} ({duration(winner.baseline_seconds)})"
    console.print(f"  {over}, max error {winner.max_error:.2g}; {winner.cpu}, {winner.isa}", markup=False)
    table = Table(box=None, pad_edge=False)
    for column in ("task", "runs", "a call", "over baseline", "config"):
        table.add_column(column, overflow="fold", justify="left" if column in ("task", "config") else "right")
    for task in winner.tasks:
        times = task.baseline_seconds / task.seconds.estimate if task.seconds and task.baseline_seconds else None
        knobs = " ".join(f"{name}={value}" for name, value in task.config.items()) if task.config is not None else ""
        table.add_row(
            task.tag,
            str(task.count),
            duration(task.seconds.estimate if task.seconds else None),
            f"{times:.3g}x" if times else "-",
            f"{task.schedule}: {knobs}" if task.schedule else "plain lowering",
        )
    console.print(table)
    if winner.buffers:
        peak, naive = (winner.buffers[name] / 2**20 for name in ("peak_bytes", "naive_bytes"))
        console.print(f"  arena {peak:.4g} MiB for {winner.buffers['count']} buffers ({naive:.4g} MiB separately)")


def show_explanation(found: Explanation) -> None:
    """A row a technique, then counters and memory."""
    console = out()
    built = found.kind == "build-up"
    console.print(
        f"{found.payload}: " + ("built up, each step's gain" if built else "the winner without one technique")
    )
    table = Table(box=None, pad_edge=False)
    for column in ("", "time", "gain [95 %]" if built else "times as long [95 %]", "max error", "tasks"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for index, row in enumerate(found.rows):
        name = row.name if built or index == 0 else f"without {row.name}"
        unused = index > 0 and not row.tasks
        table.add_row(
            name,
            duration(row.seconds.estimate) if row.seconds else row.outcome.partition(":")[0],
            "not used" if unused else factor(row.factor) if index else "",
            f"{row.max_error:.2g}" if row.max_error is not None else "-",
            str(len(row.tasks)) if index else "",
        )
    console.print(table)
    if found.counts is not None:
        for name, count in found.counts.events.items():
            console.print(f"  {name}: {count:.4g} a call")
        if found.counts.missing:
            console.print(f"  hardware counters: {found.counts.missing}", soft_wrap=True)
    if found.memory is not None:
        sizes = {name: f"{size / 2**20:.4g} MiB" for name, size in vars(found.memory).items()}
        console.print(
            f"  memory: arguments {sizes['arguments']}, intermediates {sizes['intermediates']} in an arena of "
            f"{sizes['arena']}, packed weights {sizes['packed_weights']}",
            soft_wrap=True,
        )
