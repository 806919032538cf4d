"""`autotune list`: list payloads, families and other plug-ins by name."""

import inspect
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer

from autotune.cli.options import AsJson
from autotune.cli.say import complain

WIDTH = 18  # of names
NAME = 2  # blanks before a name


def list_names(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Kinds or names; by default all there are.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List payloads with their parameters, schedule families, baselines and comparators, plug-ins included.

    Example: autotune list payloads
    """
    from autotune.core.printable import fold
    from autotune.registry import listings
    from autotune.reports.format import out

    shown = chosen(listings(complain), names or ())
    if as_json:
        listed = {
            kind: {n: p if isinstance(p, str) else p.value for n, p in each.items()} for kind, each in shown.items()
        }
        typer.echo(json.dumps(listed))
        return
    width = out().width
    for kind, each in shown.items():
        typer.echo(f"{kind}:")
        for name, entry in each.items():
            line, *more = [entry] if isinstance(entry, str) else [description(entry), *parameters(entry)]
            beside = NAME + WIDTH + 1
            texts = fold(f"{name:{WIDTH}s} {line}", width, NAME, beside)
            for text in (*texts, *(part for each in more for part in fold(each, width, beside, beside))):
                typer.echo(text)


def chosen(shown: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Select kinds, or entries of any kind, by name; everything if no name is given.

    Raises:
        BadParameter: A name is neither that of a kind nor of an entry.
    """
    there = {*shown, *(member for each in shown.values() for member in each)}
    for name in names:
        if name not in there:
            raise typer.BadParameter(f"NAME must be a kind ({', '.join(shown)}) or in one of them, got {name!r}")
    if not names:
        return shown
    selected = {
        kind: dict(each) if kind in names else {member: entry for member, entry in each.items() if member in names}
        for kind, each in shown.items()
    }
    return {kind: each for kind, each in selected.items() if each}


def description(point: EntryPoint) -> str:
    """Return one line on an entry point: its `summary`, the first line of a docstring, or its module."""
    try:
        loaded = point.load()
    except Exception:  # a plug-in raises whatever it raises; using it says what
        return point.value
    if isinstance(summary := getattr(loaded, "summary", ""), str) and summary:
        return summary.replace("``", "")
    own = loaded if inspect.isroutine(loaded) or inspect.isclass(loaded) else type(loaded)
    if own.__module__ == "builtins":
        return point.value
    return (inspect.getdoc(own) or point.value).splitlines()[0].replace("``", "")


def parameters(point: EntryPoint) -> list[str]:
    """Return the parameters of a payload with their defaults as one line; no line if it declares none."""
    try:
        declared = point.load().parameters
    except Exception:
        return []
    known = declared if isinstance(declared, Mapping) else {}
    return [" ".join(f"{name}={default}" for name, default in known.items())] if known else []
