"""Offsets of the steps of a row."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.values import index


@dataclass(frozen=True)
class RowStep:
    """Index of a step of a row.

    Attributes:
        start: Induction variable of a loop.
        beyond: Constant number of steps to add. Kept apart so that addresses share a base, which LLVM does not find
            itself.
    """

    start: ir.Value
    beyond: int = 0

    def times(self, number: int) -> ir.Value:
        """Return the index of the step's first element, for `number` elements per step."""
        return arith.addi(arith.muli(self.start, index(number)), index(self.beyond * number))
