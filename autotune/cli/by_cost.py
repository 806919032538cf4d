"""`autotune tune --cost NAME:ARGUMENT`: choose by a cost function that models some machine, and draw what it chose."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autotune.store.places import OUTPUT, slug

if TYPE_CHECKING:
    from autotune.core.cost_function import CostFunction
    from autotune.tuning.by_cost import CostTuning
    from autotune.tuning.options import TuneOptions

CHOSEN = "chosen.json"


def find_model(spec: str) -> "CostFunction | None":
    """The cost function that a user names, if it is a model; `None` for the one that measures.

    Raises:
        MachineError: There is none of that name, or it refuses its argument.
    """
    from autotune.core.cost_function import MeasuredCost
    from autotune.tuning.by_cost import open_cost

    found = open_cost(spec)
    return None if isinstance(found, MeasuredCost) else found


def tune_with_cost(
    payloads: Sequence[str],
    cost: "CostFunction",
    options: "TuneOptions",
    *,
    searched: bool,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Search what a cost function lets choose, and write the choice with its pictures.

    Args:
        payloads: Specs of the payloads.
        cost: What says what a choice costs.
        options: Options of `tune`.
        searched: Whether there are other options besides, of searches that measure.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Print JSON.
    """
    from autotune.cli.progress import ProgressLine, read_payloads
    from autotune.tuning.by_cost import tune_by_cost

    if searched or options.threads > 1 or options.jobs > 1 or options.backends:
        raise typer.BadParameter(
            f"--cost {cost.name} measures nothing: of a search it takes --trials, --sampler and --seed"
        )
    with ProgressLine() as line:
        loaded = read_payloads(payloads, line)
    for payload in loaded:
        with ProgressLine(payload.name) as line:
            found = tune_by_cost(payload, cost, options, line)
        place = folder or OUTPUT / slug(f"cost-{cost.name}") / slug(payload.name)
        files = write_choice(found, place)
        if as_json:
            typer.echo(json.dumps(found.to_json() | {"files": str(place)}))
        else:
            show_choice(found, files, place)


def write_choice(found: "CostTuning", place: Path) -> list[str]:
    """Write a choice and its pictures; gives the names of the files."""
    place.mkdir(parents=True, exist_ok=True)
    (place / CHOSEN).write_text(json.dumps(found.to_json(), indent=1) + "\n")
    names = [CHOSEN]
    for name, figure in found.program.draw(found.best).items():
        figure.savefig(place / f"{name}.png", dpi=150)
        names.append(f"{name}.png")
    return names


def show_choice(found: "CostTuning", files: Sequence[str], place: Path) -> None:
    """Print what was chosen, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import duration, out

    console, configs = out(), len(found.tried)
    impossible = sum(each is None for each in found.tried)
    show_sentence(
        console, f"{found.payload} by {found.cost}: {duration(found.seconds)} predicted, nothing was measured"
    )
    same = "the default" if found.gain == 1 else f"{found.gain:.3f} x the default's rate"
    refused = f", {impossible} of them are impossible there" if impossible else ""
    show_sentence(console, f"{same}; {configs} configs asked for{refused}", 2)
    for sentence in found.program.explain(found.best):
        show_sentence(console, sentence, 2)
    console.print(f"  files: {place}: {', '.join(files)}", soft_wrap=True, markup=False)
