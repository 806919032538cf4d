"""Loops whose number of steps is known."""

from collections.abc import Callable

from mlir import ir
from mlir.dialects import scf

from autotune.compiler.ir.values import index


def counted(count: int, write: Callable[[ir.Value], None]) -> None:
    """A loop of so many steps, at the insertion point; `write` is given what it counts. Nothing where there is none."""
    if not count:
        return
    loop = scf.ForOp(index(0), index(count), index(1))
    with ir.InsertionPoint(loop.body):
        write(loop.induction_variable)
        scf.yield_([])


def in_pieces(count: int, length: int, write: Callable[[ir.Value, int], None]) -> None:
    """A loop over pieces of some length, and the rest behind it; `write` is given the first element and how many."""
    whole = count // length * length
    if whole:
        loop = scf.ForOp(index(0), index(whole), index(length))
        with ir.InsertionPoint(loop.body):
            write(loop.induction_variable, length)
            scf.yield_([])
    if whole < count:
        write(index(whole), count - whole)


def split(count: int, write: Callable[[ir.Value], None]) -> None:
    """The same, its steps shared out among threads: each writes what no other reads or writes."""
    loop = scf.ForallOp([0], [count], [1])
    with ir.InsertionPoint(loop.body):
        write(loop.induction_variables[0])
        scf.InParallelOp()
