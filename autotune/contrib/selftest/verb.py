"""`autotune doctor --self`: check the tuner's guarantees on this machine."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson
from autotune.core.host.whole_file import write_file
from autotune.plugins import Arguments, Verb, VerbOption, option
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.contrib.selftest.figures import Figure


SELF = "The tuner's own guarantees"  # heading of these options of `doctor`
Quick = Annotated[
    bool,
    typer.Option("--quick", rich_help_panel=SELF, help="With --self, a tenth of everything: a minute, and coarse."),
]
BaselineName = Annotated[
    str, typer.Option("--baseline", rich_help_panel=SELF, help="With --self, what winners race against; see `list`.")
]


def selftest(
    quick: Quick = False,
    baseline: BaselineName = "passes",
    as_json: AsJson = False,
) -> None:
    """Crash, kill and time the tuner, and print what it promises beside what it does. Exit 1 if a promise is broken.

    Takes about forty minutes; keeps its figures in the results of this machine.

    Example: autotune doctor --self --quick
    """
    from autotune.contrib.selftest import figures as promises
    from autotune.contrib.selftest.regress import check_regress
    from autotune.contrib.selftest.run import run_selftest
    from autotune.core.progress import ProgressLine

    if not quick:
        home().mkdir(parents=True, exist_ok=True)  # before minutes are spent
    amounts = promises.QUICK if quick else promises.FULL
    with ProgressLine(is_spoken=True) as line:
        result = run_selftest(amounts, baseline, line)
        more = check_regress(amounts.checks, line)
        result = replace(result, figures=(*result.figures, *more))
    if not quick:
        write_file(home() / "selftest.json", json.dumps(result.to_json(), indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(result.to_json()))
    else:
        show_figures(result.figures)
    if not all(figure.holds for figure in result.figures):
        raise typer.Exit(1)


def show_figures(figures: "Sequence[Figure]") -> None:
    """Print the results of the self-test, one guarantee per line."""
    from autotune.cli.layout import Column, Table, TextRow, show_table
    from autotune.reports.format import out

    columns = tuple(map(Column, ("measured", "must be", "")))
    rows = (
        TextRow(figure.name, (figure.shown, figure.law, "kept" if figure.holds else "BROKEN"), figure.detail)
        for figure in figures
    )
    show_table(out(), Table("promise", columns, tuple(rows), "how"))


def examine_tuner(arguments: Arguments) -> None:
    """Run `doctor --self`: check the guarantees instead of the machine."""
    selftest(arguments["quick"], arguments["baseline"], arguments["as_json"])


VERB = Verb(
    selftest, "Machines", "Check what the tuner guarantees, by crashing it.", after="doctor", instead="doctor --self"
)
DOCTOR = VerbOption(
    "doctor",
    (
        option(
            "of_tuner",
            Annotated[
                bool,
                typer.Option(
                    "--self",
                    rich_help_panel=SELF,
                    help="Crash, kill and time the tuner; exit 1 if a guarantee fails.",
                ),
            ],
            False,
        ),
        option("quick", Quick, False),
        option("baseline", BaselineName, "passes"),
    ),
    takes=lambda arguments: arguments["of_tuner"],
    run=examine_tuner,
    ignores=("noise", "threads"),
)
