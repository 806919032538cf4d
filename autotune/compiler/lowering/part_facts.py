"""What is known of a part of a program before it runs: its share of the work, and whether it can be verified.

What was not computed is NaN: outputs before a call, and intermediates, which `poison` fills when they are allocated.
What follows from that is NaN too, and all else must be right. That does not hold where a program hides NaN, and where a
loop that is cut short adds to what it wrote before.
"""

from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import arith, linalg

from autotune.compiler.ir.module import run_passes
from autotune.compiler.ir.nests import trips_of

FOR, ALLOCATE = "scf.for", ("memref.alloc", "memref.alloca")
WRITE = (  # ops whose operands behind the first are where they write to
    "memref.store",
    "memref.copy",
    "memref.atomic_rmw",
    "vector.store",
    "vector.transfer_write",
    "vector.maskedstore",
    "vector.scatter",
)
HIDE = (  # ops that give a number for NaN
    "arith.bitcast",
    "arith.cmpf",
    "arith.fptosi",
    "arith.fptoui",
    "arith.maxnumf",
    "arith.minnumf",
    "math.copysign",
    "math.fpowi",
    "math.powf",
)
FILL_LOOPS = "builtin.module(func.func(convert-linalg-to-loops))"


def work(op: ir.OpView | ir.Operation) -> int:
    """Number of ops that one execution of an op executes; loops of unknown length count once."""
    trips = trips_of(op.operation) if op.operation.name == FOR else 1
    return 1 + trips * sum(work(inner) for inner in inside(op))


def inside(op: ir.OpView | ir.Operation) -> Iterable[ir.OpView]:
    """Ops directly below an op."""
    return (inner for region in op.regions for block in region.blocks for inner in block.operations)


def why_unverifiable(functions: Sequence[ir.OpView], cut: Sequence[ir.Operation]) -> str:
    """Why what a part writes cannot be verified; empty if it can.

    Args:
        functions: Functions of the part.
        cut: Loops that end early.
    """
    names, whole_numbers = set(), False
    for op in everything(functions):
        names.add(op.name)
        whole_numbers |= op.name in ALLOCATE and not isinstance(op.results[0].type.element_type, ir.FloatType)
    if hiding := sorted(names.intersection(HIDE)):
        return f"{hiding[0]} gives a number for what was not computed"
    if whole_numbers:
        return "some of its intermediates are whole numbers"
    return "" if all(map(is_apart, cut)) else "a loop of it adds to what it wrote before"


def everything(ops: Iterable[ir.OpView | ir.Operation]) -> Iterable[ir.Operation]:
    """Ops and all below them."""
    for op in ops:
        yield op.operation
        yield from everything(inside(op))


def is_apart(loop: ir.Operation) -> bool:
    """Tell whether every iteration of a loop writes elements of its own: places that follow from its number."""
    if len(loop.results):
        return False
    own: set[ir.Value] = {loop.regions[0].blocks[0].arguments[0]}
    for op in everything(inside(loop)):
        if op.name == "func.call" or (op.name in WRITE and own.isdisjoint(list(op.operands)[1:])):
            return False
        if op.name in ALLOCATE or not own.isdisjoint(op.operands):
            own.update(op.results)
    return True


def poison(module: ir.Module, functions: Sequence[ir.OpView]) -> None:
    """Fill everything that functions allocate with NaN, in place, by loops."""
    for op in list(everything(functions)):
        if op.name in ALLOCATE:
            with ir.InsertionPoint.after(op), op.location:
                kind = op.results[0].type.element_type
                linalg.fill(arith.constant(kind, ir.FloatAttr.get(kind, float("nan"))), outs=[op.results[0]])
    run_passes(module, FILL_LOOPS)
