"""Signatures of native constraints and rewrites: the kinds of their arguments and results."""

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
    """A native constraint (condition) or rewrite (writer) that a pattern may call.

    Attributes:
        name: Name in patterns.
        takes: Kinds of its arguments: ``operation``, ``value``, ``attribute``.
        gives: Kinds of its results.
        apply: Python function. A condition returns `None` or False if it fails, else True or its results, one or a
            tuple. A writer returns its results; it must not fail, since rewrites cannot be rolled back.
        says: Description of the condition or of the written operations.
    """

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    apply: Callable[..., Any]
    says: str = ""

    def __str__(self) -> str:
        return f"({', '.join(self.takes)}) -> ({', '.join(self.gives)})"


def kind_of(pdl_type: ir.Type) -> str:
    """Return the kind of a PDL value by its type."""
    return KINDS.get(str(pdl_type), str(pdl_type))
