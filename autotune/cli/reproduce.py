"""`autotune reproduce`: a trial again."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import StorePath
from autotune.store.places import home


def reproduce(
    trial: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Beginning of a trial's key; left out, what failed is listed.")
    ] = None,
    store: StorePath = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write its files.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds it may take.")] = 60.0,
) -> None:
    """Write a trial's payload and schedule as files, and run it again in isolation. Exit 1 if it does otherwise now.

    Example: autotune reproduce 3f9a2c --store mine.journal
    """
    location = store or home() / "store.journal"
    if trial is None:
        from autotune.reports.tables import show_failures
        from autotune.store.store import trials

        show_failures(trials(location))
        return
    from autotune.bundles.reproduce import reproduce
    from autotune.cli.console import show_reproduction

    found = reproduce(location, trial, out or Path(f"trial-{trial}"), timeout)
    show_reproduction(found)
    if not found.is_same:
        raise typer.Exit(1)
