"""`autotune doctor`: what this machine can do."""

import json

import typer

from autotune.cli.options import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Measure this machine's roofs and noise, and say what is missing. Exit 1 if something needed is.

    Example: autotune doctor
    """
    from autotune.doctor import examine
    from autotune.report import show_diagnosis

    found = examine()
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_diagnosis(found)
    if found.missing:
        raise typer.Exit(1)
