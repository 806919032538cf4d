"""`autotune explain`: why a winner is fast."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, FileFamily

if TYPE_CHECKING:
    from autotune.cli.layout import TextRow
    from autotune.reports.ablation import Measured
    from autotune.reports.explain import Explanation


def explain(
    bundle: Annotated[
        str, typer.Argument(metavar="FOLDER|STORE", help="A bundle; with --model a store or a recording.")
    ],
    steps: Annotated[bool, typer.Option("--steps", help="Build it up step by step instead.")] = False,
    baseline: Annotated[str, typer.Option(help="With --steps: pipeline to begin with, or none.")] = "passes",
    model: Annotated[
        bool, typer.Option("--model", help="What a cost model learns from its trials, and how wrong it is.")
    ] = False,
    family: FileFamily = "",
    as_json: AsJson = False,
) -> None:
    """Take one technique at a time from a bundle's winner and measure again, interleaved, on verified outputs.

    Each row is the winner without it, and how many times as long that takes. Then hardware counters, where the machine
    offers them, and memory. Exit 1 if one computes something else.

    With --model, of a store or of what `record` wrote: which features tell configs apart; what all other trials let
    expect of each, beside what was measured; and what is known of the best config with one knob changed.

    Example: autotune explain tuned/MACHINE/bundles/nano
    """
    if model:
        if steps:
            raise typer.BadParameter("--model explains a search, --steps a bundle: give one")
        from autotune.cli.explain_model import show_models

        show_models(bundle, as_json=as_json)
        return
    from autotune.reports.explain import explain, explain_steps

    folder, over = Path(bundle), None if baseline == "none" else baseline
    found = explain_steps(folder, over, family) if steps else explain(folder, family)
    typer.echo(json.dumps(found.to_json())) if as_json else show_explanation(found)
    if not found.is_right:
        raise typer.Exit(1)


def show_explanation(found: "Explanation") -> None:
    """Print a row a technique, then counters and memory."""
    from autotune.cli.layout import Column, Table, show_sentence, show_table
    from autotune.core.payload import UNPROVED
    from autotune.reports.format import out

    console = out()
    built = found.kind == "build-up"
    said = "built up, each step's gain" if built else "the winner without one technique"
    show_sentence(console, f"{found.payload}: {said}")
    heads = ("time", "gain [95 %]" if built else "times as long [95 %]", "max error", "tasks")
    rows = tuple(technique_row(row, is_first=place == 0, built=built) for place, row in enumerate(found.rows))
    show_table(console, Table("", tuple(map(Column, heads)), rows))
    if found.unproved:
        show_sentence(console, UNPROVED, 2)
    if found.counts is not None:
        for name, count in found.counts.events.items():
            show_sentence(console, f"{name}: {count:.4g} a call", 2)
        if found.counts.missing:
            show_sentence(console, f"hardware counters: {found.counts.missing}", 2)
    if found.memory is not None:
        sizes = {name: f"{size / 2**20:.4g} MiB" for name, size in vars(found.memory).items()}
        arena = f"intermediates {sizes['intermediates']} in an arena of {sizes['arena']}"
        show_sentence(
            console, f"memory: arguments {sizes['arguments']}, {arena}, packed weights {sizes['packed_weights']}", 2
        )


def technique_row(row: "Measured", *, is_first: bool, built: bool) -> "TextRow":
    """A technique's time and what it is worth; the first row is what the others are compared with."""
    from autotune.cli.layout import TextRow
    from autotune.reports.format import duration, factor

    name = row.name if built or is_first else f"without {row.name}"
    worth = factor(row.factor) if row.tasks else "not used"
    return TextRow(
        name,
        (
            duration(row.seconds.estimate) if row.seconds else row.outcome.partition(":")[0],
            "" if is_first else worth,
            f"{row.max_error:.2g}" if row.max_error is not None else "-",
            "" if is_first else str(len(row.tasks)),
        ),
    )
