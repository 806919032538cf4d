"""`autotune list`: what there is by name."""

import inspect
import json
from importlib.metadata import EntryPoint
from typing import Any

import typer

from autotune.cli.options import AsJson
from autotune.cli.say import complain

WIDTH = 14  # of names


def list_names(as_json: AsJson = False) -> None:
    """List payloads with their parameters, schedule families, baselines and comparators, plug-ins included.

    Example: autotune list
    """
    from autotune.registry import groups, listings, registered

    members = {group.rpartition(".")[2]: registered(group) for group in groups()}
    if as_json:
        found: dict[str, Any] = {kind: {n: p.value for n, p in points.items()} for kind, points in members.items()}
        typer.echo(json.dumps(found | listings(complain)))
        return
    lines = {kind: {n: description(p) for n, p in points.items()} for kind, points in members.items()}
    for kind, each in (lines | listings(complain)).items():
        typer.echo(f"{kind}:")
        for name, line in each.items():
            typer.echo(f"  {name:{WIDTH}s} {line}")


def description(point: EntryPoint) -> str:
    """What an entry point is: the first line of its docstring, or of its type's; its module where there is none."""
    try:
        loaded = point.load()
    except Exception:  # a plug-in raises whatever it raises; using it says what
        return point.value
    own = loaded if inspect.isroutine(loaded) or inspect.isclass(loaded) else type(loaded)
    if own.__module__ == "builtins":
        return point.value
    return (inspect.getdoc(own) or point.value).splitlines()[0].replace("``", "")
