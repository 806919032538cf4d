"""Loops whose number of steps is known, and places in them."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from autotune.compiler.ir.values import index


def counted(count: int, write: Callable[[ir.Value], None]) -> None:
    """A loop of so many steps; nothing where there are none."""
    if not count:
        return
    loop = scf.ForOp(index(0), index(count), index(1))
    with ir.InsertionPoint(loop.body):
        write(loop.induction_variable)
        scf.yield_([])


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
