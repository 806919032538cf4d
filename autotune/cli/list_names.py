"""`autotune list`: what there is by name."""

import json
from typing import Any

import typer

from autotune.cli.options import AsJson
from autotune.cli.say import complain


def list_names(as_json: AsJson = False) -> None:
    """List payloads, schedule families, baselines and comparators, plug-ins included.

    Example: autotune list
    """
    from autotune.registry import groups, listings, registered

    found: dict[str, Any] = {
        group.rpartition(".")[2]: {name: point.value for name, point in registered(group).items()} for group in groups()
    }
    found |= listings(complain)
    if as_json:
        typer.echo(json.dumps(found))
        return
    for kind, members in found.items():
        typer.echo(f"{kind}:")
        for name, where in members.items():
            typer.echo(f"  {name:14s} {where}")
