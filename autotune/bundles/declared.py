"""Argument names as declared in MLIR text, for readable output; the compiler only numbers arguments."""

import re
from collections.abc import Sequence
from dataclasses import replace

from autotune.core.c_names import identifier
from autotune.core.payload import Argument, Payload
from autotune.store.records import WeightRecord

NUMBERED = re.compile(r"arg\d+")
NAME = re.compile(r"%([A-Za-z_$.-][\w$.-]*)\s*:")
OPEN, CLOSED = "([{<", ")]}>"


def named_arguments(payload: Payload) -> tuple[Argument, ...]:
    """Return a payload's arguments, with numbered names replaced by those in its text.

    They stay numbered if the text does not name all of them, or if two names are the same C identifier.
    """
    names = declared_names(payload.text, payload.entry)
    distinct = len({identifier(name) for name in names}) == len(payload.arguments)
    if not distinct or not all(NUMBERED.fullmatch(argument.name) for argument in payload.arguments):
        return payload.arguments
    return tuple(replace(argument, name=name) for argument, name in zip(payload.arguments, names, strict=True))


def named_weights(payload: Payload, weights: Sequence[WeightRecord]) -> tuple[WeightRecord, ...]:
    """Return weights in panels with the argument names of `named_arguments`."""
    names = {a.name: b.name for a, b in zip(payload.arguments, named_arguments(payload), strict=True)}
    return tuple(replace(weight, argument=names[weight.argument]) for weight in weights)


def declared_names(text: str, entry: str) -> list[str]:
    """Return the names of a function's arguments in MLIR text; empty if it is missing or an argument has no name.

    Example:
        >>> declared_names("func.func @f(%x: memref<2xf32> {a = [1, 2]}, %y : memref<2xf32>) {", "f")
        ['x', 'y']
    """
    match = re.search(rf'func\.func\s+(?:public\s+)?@"?{re.escape(entry)}"?\s*\(', text)
    if match is None:
        return []
    names = [NAME.match(part.strip()) for part in parameters(text[match.end() :])]
    return [name[1] for name in names if name] if all(names) else []


def parameters(text: str) -> list[str]:
    """Split a comma-separated list at its top level, up to the bracket that closes it."""
    parts, depth = [""], 0
    for before, letter in zip(" " + text, text, strict=False):
        if letter in CLOSED and before + letter != "->":
            depth -= 1
        if depth < 0:
            break
        if letter in OPEN:
            depth += 1
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
