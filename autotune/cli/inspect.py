"""`autotune inspect`: what sweeps found."""

import json
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import AsJson, StorePath, home


def inspect(
    store: StorePath = None,
    payload: Annotated[str | None, typer.Option(help="Only sweeps of this payload.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many configs a task.")] = 3,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as Parquet.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what sweeps found: best configs, outcomes, rate.

    Example: autotune inspect --payload nano --csv trials.csv
    """
    from autotune.store import trials
    from autotune.tables import describe_sweeps, show_sweeps

    frame = trials(store or home() / "store.journal")
    if payload is not None:
        frame = frame[frame["payload"] == payload]
        if frame.empty:
            raise typer.BadParameter(f"the store must hold trials of {payload!r}, it has none; leave out --payload")
    if csv is not None:
        frame.to_csv(csv, index=False)
    if parquet is not None:
        frame.to_parquet(parquet, index=False)
    if as_json:
        typer.echo(json.dumps(describe_sweeps(frame, top)))
    else:
        show_sweeps(frame, top)
