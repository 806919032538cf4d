"""`autotune explain`: why a winner is fast."""

import json
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import AsJson


def explain(
    bundle: Annotated[Path, typer.Argument(metavar="FOLDER")],
    steps: Annotated[bool, typer.Option("--steps", help="Build it up step by step instead.")] = False,
    baseline: Annotated[str, typer.Option(help="With --steps: pipeline to begin with, or none.")] = "passes",
    as_json: AsJson = False,
) -> None:
    """Take one technique at a time from a bundle's winner and measure again, interleaved, on verified outputs.

    Each row is the winner without it, and how many times as long that takes. Then hardware counters, where the machine
    offers them, and memory. Exit 1 if one computes something else.

    Example: autotune explain results/MACHINE/bundles/nano
    """
    from autotune.cli.account import show_explanation
    from autotune.reports.explain import explain, explain_steps

    found = explain_steps(bundle, None if baseline == "none" else baseline) if steps else explain(bundle)
    typer.echo(json.dumps(found.to_json())) if as_json else show_explanation(found)
    if not found.is_right:
        raise typer.Exit(1)
