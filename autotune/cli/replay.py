"""`autotune replay`: build a bundle again and check it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import AsJson


def replay(bundle: Annotated[Path, typer.Argument(metavar="FOLDER")], as_json: AsJson = False) -> None:
    """Build a bundle again, verify it, and time it against its baseline. Exit 1 if it is wrong.

    Example: autotune replay results/MACHINE/bundles/nano
    """
    from autotune.replay import replay
    from autotune.report import show_replay

    found = replay(bundle)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_replay(found)
    if not found.is_right:
        raise typer.Exit(1)
