"""`autotune selftest`: does the tuner keep its promises on this machine?"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson
from autotune.plugins import Verb
from autotune.store.places import home

if TYPE_CHECKING:
    from autotune.contrib.selftest.figures import Figure


def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of everything: a minute, and coarse.")] = False,
    baseline: Annotated[str, typer.Option(help="Pipeline that winners race against; see `list`.")] = "passes",
    as_json: AsJson = False,
) -> None:
    """Crash, kill and time the tuner, and print what it promises beside what it does. Exit 1 if a promise is broken.

    Takes about forty minutes; keeps its figures in the results of this machine.

    Example: autotune selftest --quick
    """
    from autotune.contrib.selftest import figures as promises
    from autotune.contrib.selftest.regress import check_regress
    from autotune.contrib.selftest.run import run_selftest
    from autotune.core.progress import ProgressLine

    if not quick:
        home().mkdir(parents=True, exist_ok=True)  # before minutes are spent
    amounts = promises.QUICK if quick else promises.FULL
    with ProgressLine(is_spoken=True) as line:
        found = run_selftest(amounts, baseline, line)
        more = check_regress(amounts.checks, line)
        found = replace(found, figures=(*found.figures, *more))
    if not quick:
        (home() / "selftest.json").write_text(json.dumps(found.to_json(), indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_figures(found.figures)
    if not all(figure.holds for figure in found.figures):
        raise typer.Exit(1)


def show_figures(figures: "Sequence[Figure]") -> None:
    """Print what the self-test found, a promise a line."""
    from autotune.cli.layout import Column, Table, TextRow, show_table
    from autotune.reports.format import out

    columns = tuple(map(Column, ("measured", "must be", "")))
    rows = (
        TextRow(figure.name, (figure.shown, figure.law, "kept" if figure.holds else "BROKEN"), figure.detail)
        for figure in figures
    )
    show_table(out(), Table("promise", columns, tuple(rows), "how"))


VERB = Verb(selftest, "Machines", "Measure what the tuner promises, by breaking it.", after="doctor")
