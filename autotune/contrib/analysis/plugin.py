"""The feature as verbs show it: stage `analysis` of `show`, and `report --analysis`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.plugins import Arguments, VerbOption, option

if TYPE_CHECKING:
    from autotune.reports.sections.blocks import Section


def write_with_analysis(arguments: Arguments) -> None:
    """`report` with a section of what can be known of the winner before it runs."""
    from autotune.cli.report import write_report
    from autotune.cli.say import complain

    given = {name: arguments[name] for name in ("source", "output", "store", "explained")}
    complain(str(write_report(**given, more=[section_of])))


def section_of(folder: Path) -> "Section":
    """The section of a bundle's folder."""
    from autotune.contrib.analysis.analysed import analyse_bundle
    from autotune.contrib.analysis.section import analysed

    return analysed(analyse_bundle(folder))


REPORT = VerbOption(
    "report",
    (
        option(
            "analysis",
            Annotated[
                bool, typer.Option("--analysis", help="What can be known before it runs, as `show --stage analysis`.")
            ],
            False,
        ),
    ),
    takes=lambda arguments: bool(arguments["analysis"]),
    run=write_with_analysis,
)
