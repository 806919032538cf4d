"""`autotune compare`: our schedules beside other libraries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, Threads, real, whole
from autotune.core.options import check_real, check_seed
from autotune.store.places import home

if TYPE_CHECKING:
    from autotune.reports.comparison import Comparison


RIVALS = ("quick", "best")


def compare(
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="As for `tune`.")],
    against: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Libraries, such as numpy,onnxruntime; all by default.")
    ] = None,
    baseline: Annotated[str, typer.Option(help="Pipeline of the first row, or none; see `list`.")] = "passes",
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Bundle of the best schedules; by default the payload's newest."),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="PAYLOAD", help="Another payload of ours in a row of its own; may be given again."),
    ] = None,
    seed: Annotated[int, typer.Option(parser=whole, help="Of the input data.")] = 0,
    threads: Threads = 1,
    rivals: Annotated[
        str, typer.Option(metavar="quick|best", help="best: also ways of libraries that tune themselves for minutes.")
    ] = "quick",
    error: Annotated[
        float, typer.Option(parser=real, help="What outputs may be off, of the largest; rows that round join.")
    ] = 0.0,
    as_json: AsJson = False,
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
    from autotune.reports.compare import CompareOptions, comparators_for, compare
    from autotune.tuning.options import MOST_ERROR

    check_seed(seed)
    check_real("error", error, 0.0, MOST_ERROR, example=0.01)
    if rivals not in RIVALS:
        raise typer.BadParameter(f"--rivals must be one of {', '.join(RIVALS)}, got {rivals!r}")
    names = comparators_for(error) if against is None else [name for name in against.split(",") if name]
    with ProgressLine() as line:
        read, *others = read_payloads([payload, *(beside or [])], line)
    options = CompareOptions(
        tuple(names),
        None if baseline == "none" else baseline,
        bundle,
        seed,
        tuple(others),
        threads,
        rivals == "best",
        error,
    )
    with ProgressLine(is_spoken=True) as line:
        found = compare(read, home() / "bundles", options, line)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_comparison(found)
    if not found.is_right:
        raise typer.Exit(1)


def show_comparison(found: "Comparison") -> None:
    """Print a row a contestant, and what exactly each of them was; notes have been said before."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.core.payload import REFERENCE, UNPROVED
    from autotune.reports.format import above_roof, factor, out, roof_text, time_span

    console = out()
    several = found.machine.threads > 1
    threads = f"{found.machine.threads} threads" if several else "one thread"
    roof = f"{threads}, FMA roof {found.roofs.flops / 1e9:.1f} GFLOP/s"
    said = f"; {UNPROVED}" if found.unproved else f"; errors beside the {found.oracle}" * (found.oracle != REFERENCE)
    show_sentence(console, f"{found.payload}: {roof}; gaps below {found.noise_floor:.1%} are noise{said}")
    if found.unsteady:
        show_sentence(console, f"not measurable here and now: {found.unsteady}", 2)
    over = f"over {found.ratio_to or 'nothing'} [95 %]"
    heads = ("time [95 %]", *(["efficiency"] if several else []), "of roof", over, "max error")
    rows = (
        TextRow(
            row.name,
            (
                row.outcome if row.seconds is None else "-" if found.unsteady else time_span(row.seconds),
                *([f"{row.efficiency:.2f}" if row.efficiency is not None else "-"] if several else []),
                "-" if found.unsteady else roof_text(row.roof_fraction),
                "-" if found.unsteady else factor(row.ratio),
                f"{row.max_error:.2g}" if row.max_error is not None else "-",
            ),
        )
        for row in found.rows
    )
    show_table(console, Table("", tuple(map(Column, heads)), tuple(rows)))
    if (above := above_roof(row.roof_fraction for row in found.rows)) and not found.unsteady:
        show_sentence(console, above, 2)
    for row in found.rows:
        what = f"{row.outcome}: {row.diagnostic}" if row.diagnostic else row.version
        show_sentence(console, f"{row.name}: {what}", 2)
