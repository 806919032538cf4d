"""`autotune compare`: our schedules beside other libraries."""

import json
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import AsJson
from autotune.store.places import home


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
    seed: Annotated[int, typer.Option(help="Of the input data.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Time our schedules beside other libraries: one process, one thread, interleaved, every output verified.

    Where weights bound a call, row `read` is the roof: as many bytes read once.
    Exit 1 if one of them computes something else, or fails. A library that is not installed is announced.

    Example: autotune compare nano --against numpy,onnxruntime
    """
    from autotune.cli.console import show_comparison
    from autotune.cli.progress import ProgressLine
    from autotune.registry import COMPARATORS, load_payload, registered
    from autotune.reports.compare import CompareOptions, compare

    names = registered(COMPARATORS) if against is None else [name for name in against.split(",") if name]
    others = tuple(map(load_payload, beside or []))
    options = CompareOptions(tuple(names), None if baseline == "none" else baseline, bundle, seed, others)
    with ProgressLine() as line:
        found = compare(load_payload(payload), home() / "bundles", options, line)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_comparison(found)
    if not found.is_right:
        raise typer.Exit(1)
