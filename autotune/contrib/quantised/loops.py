"""Offsets in the steps of a row."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.values import index


@dataclass(frozen=True)
class RowStep:
    """A step of a row.

    Attributes:
        start: What a loop counts.
        beyond: Steps behind that. Addresses are those of `start` and a constant, which LLVM does not find by itself.
    """

    start: ir.Value
    beyond: int = 0

    def times(self, number: int) -> ir.Value:
        """The first of so many elements that each step has."""
        return arith.addi(arith.muli(self.start, index(number)), index(self.beyond * number))
