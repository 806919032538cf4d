"""`autotune list`: what there is by name."""

import json
from typing import Any

import typer

from autotune.cli.options import AsJson


def list_names(as_json: AsJson = False) -> None:
    """List payloads, schedule families, baselines and comparators, plug-ins included; and machines to compile for.

    Example: autotune list
    """
    from autotune.core.target_file import shipped_targets
    from autotune.registry import GROUPS, registered

    groups: dict[str, Any] = {
        group.rpartition(".")[2]: {name: point.value for name, point in registered(group).items()} for group in GROUPS
    }
    groups["targets"] = {name: target.summary for name, target in shipped_targets().items()}
    if as_json:
        typer.echo(json.dumps(groups))
        return
    for kind, members in groups.items():
        typer.echo(f"{kind}:")
        for name, where in members.items():
            typer.echo(f"  {name:14s} {where}")
