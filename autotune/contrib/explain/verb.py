"""`autotune explain` and `report --explain`: why a winner is fast."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, FileFamily
from autotune.plugins import Listing, PageSection, Verb

CAPTION = (
    "factors are medians of ratios of paired samples, not quotients of the times shown; dim: the interval contains 1, "
    "no difference was measured"
)

if TYPE_CHECKING:
    from autotune.cli.layout import TextRow
    from autotune.contrib.explain.ablation import Measured
    from autotune.contrib.explain.against import Against
    from autotune.contrib.explain.explanation import Explanation
    from autotune.core.stats import Interval
    from autotune.reports.sections.blocks import Section


def explain(
    bundle: Annotated[
        str, typer.Argument(metavar="FOLDER|PAYLOAD", help="A bundle's folder; with --against a payload, too.")
    ],
    steps: Annotated[bool, typer.Option("--steps", help="Build it up step by step instead.")] = False,
    baseline: Annotated[str, typer.Option(help="With --steps: pipeline to begin with, or none.")] = "passes",
    against: Annotated[
        str, typer.Option(metavar="LIBRARY", help="Say why it is slower than this library, such as onnxruntime.")
    ] = "",
    task: Annotated[str | None, typer.Option(metavar="TAG", help="With --against: the task of --config.")] = None,
    config: Annotated[str, typer.Option(metavar="K=V,...", help="With --against: knobs of a task.")] = "",
    family: FileFamily = "",
    as_json: AsJson = False,
) -> None:
    """Take one technique at a time from a bundle's winner and measure again, interleaved, on verified outputs.

    Each row is the winner without it, and how many times as long that takes. Then hardware counters, where the machine
    offers them, and memory. Exit 1 if one computes something else.

    With --against each row is a cause: what the time of a call falls by without it, measured, the largest first.

    Example: autotune explain tuned/MACHINE/bundles/nano
    """
    if against:
        show_against(bundle, against, task, config, family, as_json=as_json)
        return
    if config or task:
        raise typer.BadParameter("--task and --config need --against, such as --against onnxruntime")
    from autotune.contrib.explain.explanation import explain, explain_steps

    folder, over = Path(bundle), None if baseline == "none" else baseline
    if not os.path.isdir(folder):
        raise typer.BadParameter(
            f"what is explained alone must be a bundle's folder, {bundle} is none; tune it first, or give --against"
        )
    explanation = explain_steps(folder, over, family) if steps else explain(folder, family)
    typer.echo(json.dumps(explanation.to_json())) if as_json else show_explanation(explanation)
    if not explanation.is_right:
        raise typer.Exit(1)


def show_against(source: str, library: str, task: str | None, config: str, family: str, *, as_json: bool) -> None:
    """Measure and print why a bundle, or a payload with default configs, is slower than a library."""
    from autotune.contrib.explain.against import explain_against
    from autotune.contrib.explain.scheduled import scheduled_of
    from autotune.core.progress import ProgressLine

    with ProgressLine() as line:
        line.stage(f"reading {source}")
        comparison = explain_against(scheduled_of(source, task, config, family), library, listener=line)
    if as_json:
        typer.echo(json.dumps(comparison.to_json()))
        return
    show_causes(comparison)


def show_causes(against: "Against") -> None:
    """Print the times of both, one row per cause, and the most promising change."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.core.console import duration
    from autotune.reports.format import factor, out

    console = out()
    ours, theirs = duration(against.seconds), duration(against.library_seconds)
    slower = f"{factor(against.ratio)} as long"
    show_sentence(console, f"{against.payload}: {ours}, {against.library} {theirs}: {slower} [95 %]; {against.version}")
    if against.unsteady:
        show_sentence(console, f"not measurable here and now: {against.unsteady}", 2)
    rows = [
        TextRow(cause.name, (percent(cause.share), cause.change or "-", cause.task or "-")) for cause in against.causes
    ]
    heads = ("share [95 %]", "without it", "task")
    if not rows:
        show_sentence(console, "no cause was measured: no other value of a knob makes it faster", 2)
        return
    show_table(console, Table("", tuple(map(Column, heads)), tuple(rows)))
    for name, sentence in {cause.name: cause.sentence for cause in against.causes}.items():
        show_sentence(console, f"{name}: {sentence}", 2)
    show_sentence(console, "share: part of the time of a call that goes without it; causes overlap", 2)
    if change := next((cause.change for cause in against.causes if cause.change), ""):
        show_sentence(console, f"most worth trying: {change}", 2)


def percent(share: "Interval") -> str:
    """Format a share with its interval."""
    return f"{share.estimate:.0%} [{share.low:.0%}, {share.high:.0%}]"


def show_explanation(explanation: "Explanation") -> None:
    """Print one row per technique, then counters and memory use."""
    from autotune.cli.layout import Column, Table, show_sentence, show_table
    from autotune.core.payload import UNPROVED
    from autotune.reports.format import out

    console = out()
    built = explanation.kind == "build-up"
    rows_are = "built up, speed-up of each step" if built else "the winner without one technique"
    show_sentence(console, f"{explanation.payload}: {rows_are}")
    if explanation.unsteady:
        show_sentence(console, f"not measurable here and now: {explanation.unsteady}", 2)
    heads = ("time", "speed-up [95 %]" if built else "times as long [95 %]", "max error", "tasks")
    used = [row for index, row in enumerate(explanation.rows) if index == 0 or row.tasks]
    rows = tuple(
        technique_row(row, is_first=row is used[0], built=built, timed=not explanation.unsteady) for row in used
    )
    show_table(console, Table("", tuple(map(Column, heads)), rows))
    if explanation.unproved:
        show_sentence(console, UNPROVED, 2)
    show_sentence(console, CAPTION, 2)
    if unused := [row.name for row in explanation.rows[1:] if not row.tasks]:
        show_sentence(console, f"not used: {', '.join(unused)}", 2)
    if explanation.counts is not None:
        for name, count in explanation.counts.events.items():
            show_sentence(console, f"{name}: {count:.4g} a call", 2)
        if explanation.counts.missing:
            show_sentence(console, f"hardware counters: {explanation.counts.missing}", 2)
    if explanation.memory is not None:
        sizes = {name: f"{size / 2**20:.4g} MiB" for name, size in vars(explanation.memory).items()}
        arena = f"intermediates {sizes['intermediates']} in an arena of {sizes['arena']}"
        show_sentence(
            console, f"memory: arguments {sizes['arguments']}, {arena}, packed weights {sizes['packed_weights']}", 2
        )


def technique_row(row: "Measured", *, is_first: bool, built: bool, timed: bool) -> "TextRow":
    """Format the row of a technique, dim if its effect is not significant.

    Args:
        row: Measurement of the variant.
        is_first: Whether it is the reference row: the winner, or the start of a build-up.
        built: Whether the rows are the steps of a build-up.
        timed: Whether the times are reliable.
    """
    from autotune.cli.layout import TextRow
    from autotune.core.console import duration
    from autotune.reports.format import factor

    time = row.outcome.partition(":")[0] if row.seconds is None else duration(row.seconds.estimate) if timed else "-"
    return TextRow(
        row.name if built or is_first else f"without {row.name}",
        (
            time,
            "" if is_first else factor(row.factor) if timed else "-",
            f"{row.max_error:.2g}" if row.max_error is not None else "-",
            "" if is_first else str(len(row.tasks)),
        ),
        dim=not is_first and row.factor is not None and row.factor.low <= 1.0 <= row.factor.high,
    )


def section_of(folder: Path) -> "Section":
    """Run the ablation study of the bundle in a folder and return its section."""
    from autotune.contrib.explain.explanation import explain
    from autotune.contrib.explain.section import techniques_of

    return techniques_of(explain(folder))


VERB = Verb(explain, "Understand them", "Measure what each technique is worth to a bundle.", after="show")
SECTION = PageSection("Measure what each technique is worth, as `explain` does.", section_of)
LISTING = Listing()  # of techniques
