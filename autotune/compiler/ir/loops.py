"""Builders of loops with a constant trip count."""

from collections.abc import Callable

from mlir import ir
from mlir.dialects import scf

from autotune.compiler.ir.values import index


def counted(count: int, write: Callable[[ir.Value], None]) -> None:
    """Build a loop of `count` iterations at the insertion point; `write` gets its induction variable."""
    if not count:
        return
    loop = scf.ForOp(index(0), index(count), index(1))
    with ir.InsertionPoint(loop.body):
        write(loop.induction_variable)
        scf.yield_([])


def in_pieces(count: int, length: int, write: Callable[[ir.Value, int], None]) -> None:
    """Build a loop over chunks of `length` elements, and the remainder; `write` gets a chunk's first index and size."""
    whole = count // length * length
    if whole:
        loop = scf.ForOp(index(0), index(whole), index(length))
        with ir.InsertionPoint(loop.body):
            write(loop.induction_variable, length)
            scf.yield_([])
    if whole < count:
        write(index(whole), count - whole)


def split(count: int, write: Callable[[ir.Value], None]) -> None:
    """Build a parallel loop of `count` iterations with disjoint writes; `write` gets its induction variable."""
    loop = scf.ForallOp([0], [count], [1])
    with ir.InsertionPoint(loop.body):
        write(loop.induction_variables[0])
        scf.InParallelOp()
