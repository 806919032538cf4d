"""`autotune doctor`: what this machine can do."""

import json
from typing import Annotated

import typer

from autotune.cli.options import AsJson
from autotune.store.places import home


def doctor(
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Measure noise for a minute, and keep the floor for `tune`."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's roofs and noise, say what is missing and what to change. Exit 1 if something is missing.

    Example: autotune doctor
    """
    from autotune.cli.console import show_diagnosis
    from autotune.worker.doctor import A_A_PAIRS, MANY_PAIRS, examine
    from autotune.worker.noise import write_floor

    if noise:
        home().mkdir(parents=True, exist_ok=True)  # before minutes are spent
    found = examine(MANY_PAIRS if noise else A_A_PAIRS)
    if noise:
        path = write_floor(home(), found.machine, found.noise_floor, MANY_PAIRS)
        typer.echo(f"autotune: noise floor {found.noise_floor:.2%} kept in {path}", err=True)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_diagnosis(found)
    if found.missing:
        raise typer.Exit(1)
