"""`autotune replay KEY`: run a recorded trial again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import FileFamily, StorePath, real
from autotune.core.options import LEAST_TIMEOUT, MOST_SECONDS, check_real
from autotune.store.folders import home

if TYPE_CHECKING:
    import pandas as pd

    from autotune.bundles.reproduce import Reproduction

KEY = 12  # characters of a trial's key that are shown


def reproduce(
    trial: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Beginning of a trial's key; left out, what failed is listed.")
    ] = None,
    store: StorePath = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", "--out", metavar="DIR", help="Where to write its files.")
    ] = None,
    timeout: Annotated[float, typer.Option(parser=real, help="Seconds it may take.")] = 60.0,
    family: FileFamily = "",
) -> None:
    """Write a trial's payload and schedule as files, and run it again in isolation. Exit 1 if it does otherwise now.

    Example: autotune replay 3f9a2c --store mine.journal
    """
    check_real("timeout", timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    location = store or home() / "store.journal"
    if trial is None:
        from autotune.store.store import trials

        show_failures(trials(location))
        return
    from autotune.bundles.reproduce import reproduce

    reproduction = reproduce(location, trial, out or Path(f"trial-{trial}"), timeout, family)
    show_reproduction(reproduction)
    if not reproduction.is_same:
        raise typer.Exit(1)


def show_reproduction(reproduction: "Reproduction") -> None:
    """Print the recorded and the present outcome of a trial."""
    from autotune.cli.layout import show_sentence
    from autotune.core.payload import UNPROVED
    from autotune.reports.format import out

    console = out()
    if reproduction.changed:
        show_sentence(console, f"note: {reproduction.changed}")
    show_sentence(console, f"recorded: {reproduction.trial.outcome} {reproduction.trial.diagnostic}")
    show_sentence(console, f"now:      {reproduction.evaluation.outcome} {reproduction.evaluation.diagnostic}")
    if reproduction.unproved:
        show_sentence(console, UNPROVED)
    console.print(f"files:    {reproduction.folder}", soft_wrap=True, markup=False)


def show_failures(frame: "pd.DataFrame") -> None:
    """Print the failures by outcome and diagnostic, with their number and the key and task of one such trial."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.reports.format import out

    console = out()
    failed = frame[~frame["outcome"].isin(("ok", "duplicate"))]
    if failed.empty:
        show_sentence(console, "no trial failed")
        return
    rows = []
    for (outcome, diagnostic), alike in failed.groupby(["outcome", "diagnostic"], sort=False):
        first = alike.iloc[0]
        rows.append(TextRow(first["task"], (first["key"][:KEY], str(outcome), str(len(alike))), str(diagnostic)))
    show_table(console, Table("task", tuple(map(Column, ("trial", "outcome", "times"))), tuple(rows), "diagnostic"))
