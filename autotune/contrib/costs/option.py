"""`autotune tune --cost NAME:ARGUMENT`: search with a cost function that models a machine, and draw the best config."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.tune import ELSEWHERE, check_folder, check_modelled
from autotune.core.host.whole_file import whole_file, write_file
from autotune.plugins import Arguments, Listing, VerbOption, option
from autotune.store.folders import OUTPUT, slug

if TYPE_CHECKING:
    from autotune.contrib.costs.cost_function import CostFunction
    from autotune.contrib.costs.tune import CostTuning
    from autotune.tuning.options import TuneOptions

CHOSEN = "chosen.json"
MEASURED = "cpu"  # no model: the verb itself


def choose_by_cost(arguments: Arguments) -> None:
    """`tune` by a model: nothing is measured, so that of a search it takes trials, sampler and seed alone."""
    from autotune.contrib.costs.cost_function import open_cost
    from autotune.tuning.options import options_given

    check_folder(arguments["payloads"], arguments["bundle"])
    cost, options = open_cost(arguments["cost"]), options_given(arguments)
    check_modelled(options, arguments, f"--cost {cost.name}", ("store",))
    tune_with_cost(arguments["payloads"], cost, options, folder=arguments["bundle"], as_json=arguments["as_json"])


def tune_with_cost(
    payloads: Sequence[str],
    cost: "CostFunction",
    options: "TuneOptions",
    *,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Search configs with a cost function, and write the best one with its pictures.

    Args:
        payloads: Specs of the payloads.
        cost: Cost function.
        options: Options of `tune`.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Whether JSON is printed.
    """
    from autotune.cli.reading import read_payloads
    from autotune.contrib.costs.tune import tune_by_cost
    from autotune.core.progress import ProgressLine

    with ProgressLine() as line:
        loaded = read_payloads(payloads, line)
    for payload in loaded:
        with ProgressLine(payload.name) as line:
            result = tune_by_cost(payload, cost, options, line)
        directory = folder or OUTPUT / slug(f"cost-{cost.name}") / slug(payload.name)
        files = write_choice(result, directory)
        if as_json:
            typer.echo(json.dumps(result.to_json() | {"files": str(directory)}))
        else:
            show_choice(result, files, directory)


def write_choice(result: "CostTuning", path: Path) -> list[str]:
    """Write the best config and its pictures, and return the names of the files."""
    path.mkdir(parents=True, exist_ok=True)
    write_file(path / CHOSEN, json.dumps(result.to_json(), indent=1) + "\n")
    names = [CHOSEN]
    for name, figure in result.program.draw(result.best).items():
        with whole_file(path / f"{name}.png") as fresh:
            figure.savefig(fresh, dpi=150)
        names.append(f"{name}.png")
    return names


def show_choice(result: "CostTuning", files: Sequence[str], path: Path) -> None:
    """Print the best config, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.core.console import duration
    from autotune.reports.format import out

    console, configs = out(), len(result.tried)
    impossible = sum(each is None for each in result.tried)
    show_sentence(
        console, f"{result.payload} by {result.cost}: {duration(result.seconds)} predicted, nothing was measured"
    )
    same = "the default" if result.gain == 1 else f"{result.gain:.3f} x the default's rate"
    refused = f", {impossible} of them are impossible there" if impossible else ""
    show_sentence(console, f"{same}; {configs} configs asked for{refused}", 2)
    for sentence in result.program.explain(result.best):
        show_sentence(console, sentence, 2)
    console.print(f"  files: {path}: {', '.join(files)}", soft_wrap=True, markup=False)


COST = VerbOption(
    "tune",
    (
        option(
            "cost",
            Annotated[
                str,
                typer.Option(
                    rich_help_panel=ELSEWHERE,
                    metavar="NAME[:ARGUMENT]",
                    help="What a choice costs: cpu measures, mesh:GRID models.",
                ),
            ],
            MEASURED,
        ),
    ),
    takes=lambda arguments: arguments["cost"] != MEASURED,
    run=choose_by_cost,
)
LISTING = Listing()  # of cost functions
