"""`autotune compare`: our schedules beside other libraries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.options import AsJson, with_options
from autotune.core.verb_options import options_given
from autotune.reports.compare_options import COMPARE_OPTIONS, CompareOptions
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.reports.comparison import Comparison


@with_options(COMPARE_OPTIONS)
def compare(
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="As for `tune`.")],
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Bundle of the best schedules; by default the payload's newest."),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="PAYLOAD", help="Another payload of ours in a row of its own; may be given again."),
    ] = None,
    as_json: AsJson = False,
    **words: Any,  # noqa: ANN401 - the fields of CompareOptions, by `with_options`
) -> None:
    """Time our schedules beside other libraries: one thread each, interleaved, every output verified.

    With --threads everybody has so many, and runs on one too: efficiency is the time on one over N times that on N.

    With --error libraries that round operands have rows too: PyTorch in bfloat16, ONNX Runtime in int8.

    Where weights bound a call, row `read` is the roof: as many bytes read once.
    Exit 1 if one of them computes something else, or fails. A library that is not installed is announced.

    Example: autotune compare nano --against numpy,onnxruntime
    """
    from autotune.cli.reading import read_payloads
    from autotune.core.progress import ProgressLine
    from autotune.reports.compare import compare

    options = options_given(CompareOptions, COMPARE_OPTIONS, words)
    with ProgressLine() as line:
        read, *others = read_payloads([payload, *(beside or [])], line)
    with ProgressLine(is_spoken=True) as line:
        comparison = compare(read, home() / "bundles", options, line, bundle=bundle, beside=others)
    if as_json:
        typer.echo(json.dumps(comparison.to_json()))
    else:
        show_comparison(comparison)
    if not comparison.is_right:
        raise typer.Exit(1)


def show_comparison(comparison: "Comparison") -> None:
    """Print one row per entry, and the version or failure of each; notes were printed before."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.core.payload import REFERENCE, UNPROVED
    from autotune.reports.format import above_roof, factor, out, roof_text, time_span

    console = out()
    several = comparison.machine.threads > 1
    threads = f"{comparison.machine.threads} threads" if several else "one thread"
    roof = f"{threads}, FMA roof {comparison.roofs.flops / 1e9:.1f} GFLOP/s"
    oracle = (
        f"; {UNPROVED}"
        if comparison.unproved
        else f"; errors beside the {comparison.oracle}" * (comparison.oracle != REFERENCE)
    )
    show_sentence(console, f"{comparison.payload}: {roof}; gaps below {comparison.noise_floor:.1%} are noise{oracle}")
    if comparison.unsteady:
        show_sentence(console, f"not measurable here and now: {comparison.unsteady}", 2)
    over = f"over {comparison.ratio_to or 'nothing'} [95 %]"
    heads = ("time [95 %]", *(["efficiency"] if several else []), "of roof", over, "max error")
    rows = (
        TextRow(
            row.name,
            (
                row.outcome if row.seconds is None else "-" if comparison.unsteady else time_span(row.seconds),
                *([f"{row.efficiency:.2f}" if row.efficiency is not None else "-"] if several else []),
                "-" if comparison.unsteady else roof_text(row.roof_fraction),
                "-" if comparison.unsteady else factor(row.ratio),
                f"{row.max_error:.2g}" if row.max_error is not None else "-",
            ),
        )
        for row in comparison.rows
    )
    show_table(console, Table("", tuple(map(Column, heads)), tuple(rows)))
    if (above := above_roof(row.roof_fraction for row in comparison.rows)) and not comparison.unsteady:
        show_sentence(console, above, 2)
    for row in comparison.rows:
        result = f"{row.outcome}: {row.diagnostic}" if row.diagnostic else row.version
        show_sentence(console, f"{row.name}: {result}", 2)
