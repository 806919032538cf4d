"""Signatures of native conditions and writers: what they take from a pattern, and what they give it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir import ir

KINDS = {
    "!pdl.operation": "operation",
    "!pdl.value": "value",
    "!pdl.attribute": "attribute",
    "!pdl.type": "type",
}


@dataclass(frozen=True)
class Native:
    """A condition, or a writer, that a pattern may call.

    Attributes:
        name: Name that patterns call it by.
        takes: Kinds of its arguments: ``operation``, ``value``, ``attribute``.
        gives: Kinds of its results.
        apply: Function behind it. A condition's gives `None` or False for no, True for yes, or the results, one or a
            tuple; a writer's its results, and must find all as it needs it, since nothing can be taken back.
        says: What it asks or writes, a sentence.
    """

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    apply: Callable[..., Any]
    says: str = ""

    def __str__(self) -> str:
        return f"({', '.join(self.takes)}) -> ({', '.join(self.gives)})"


def kind_of(pdl_type: ir.Type) -> str:
    """Kind of a value of PDL, by its type."""
    return KINDS.get(str(pdl_type), str(pdl_type))
