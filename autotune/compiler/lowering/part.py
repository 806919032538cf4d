"""A part of a program: one in so many iterations of its long loops, the outermost of every nest.

It takes that share of the time, whatever the program is lowered by, so that what one call of a slow program takes can
be known without making the call. Of its results those are right that follow from what was run.

What was not computed is NaN: outputs before a call, and intermediates, which `poison` fills when they are allocated.
What follows from that is NaN too, and all else must be right. That does not hold where a program hides NaN, and where a
loop that is cut short adds to what it wrote before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg

from autotune.compiler.ir.module import every_name, run_passes, symbol
from autotune.compiler.ir.nests import trips_of
from autotune.compiler.ir.values import constant, index, is_constant, trip_count
from autotune.core.errors import CompileError

MODULE = "builtin.module("
BRACKETS = {"(": 1, "{": 1, "<": 1, ")": -1, "}": -1, ">": -1}


@dataclass(frozen=True)
class Part:
    """What is known of a part of a program.

    Attributes:
        scale: Ops that the whole executes over those that the part does: what its time is multiplied by.
        unverifiable: Why what it writes cannot be verified; empty if it can.
    """

    scale: float = 1.0
    unverifiable: str = ""


def run_part(module: ir.Module, pipeline: str, part: int, *, whole: str, poisoned: bool = False) -> Part:
    """Run a pass pipeline, and shorten loops as soon as loops are all that is left of linalg.

    Args:
        module: Module to run it on, in place.
        pipeline: Textual pass pipeline, ``builtin.module(...)``.
        part: One in so many iterations is kept.
        whole: Function that stays as it is.
        poisoned: Fill what the part allocates with NaN, so that what was not computed shows.

    Raises:
        CompileError: Stage ``lower``: a pass fails, or no pass leaves loops that are long enough.
    """
    passes = split_pipeline(pipeline)
    for done, each in enumerate(passes, 1):
        run_passes(module, f"{MODULE}{each})")
        if is_lowered(module):
            functions = [op for op in module.body.operations if symbol(op) != whole]
            loops = [loop for function in functions for loop in long_loops(function, part)]
            if not loops:
                break
            before = sum(map(work, functions))
            for loop in loops:
                keep(loop, round(trip_count(loop) / part))
            known = Part(before / sum(map(work, functions)), why_unverifiable(functions, loops))
            if poisoned:
                poison(module, functions)
            run_passes(module, f"{MODULE}{','.join(passes[done:])})")
            return known
    raise CompileError("lower", f"a part of a program needs loops of {part} steps and more, it has none")


def split_pipeline(pipeline: str) -> list[str]:
    """The passes of a pipeline on modules, in order; those on functions with what is around them.

    >>> split_pipeline("builtin.module(func.func(a,b),c{x=1 y=2,3},d)")
    ['func.func(a,b)', 'c{x=1 y=2,3}', 'd']
    """
    depth, passes = 0, [""]
    for letter in pipeline.strip().removeprefix(MODULE).removesuffix(")"):
        depth += BRACKETS.get(letter, 0)
        if letter == "," and depth == 0:
            passes.append("")
        else:
            passes[-1] += letter
    return passes


def is_lowered(module: ir.Module) -> bool:
    """Tell whether a module has no linalg op, but memory."""
    names = every_name(module)
    tensors = any(name.startswith(("tensor.", "bufferization.")) for name in names)
    return not tensors and not any(name.startswith("linalg.") for name in names)


def long_loops(op: ir.OpView | ir.Operation, part: int) -> Iterator[ir.Operation]:
    """The outermost loops inside an op that are long enough."""
    for inner in inside(op):
        if inner.operation.name == FOR and is_long(inner.operation, part):
            yield inner.operation
        else:
            yield from long_loops(inner, part)


def is_long(loop: ir.Operation, part: int) -> bool:
    """Tell whether a loop has constant bounds, and steps enough to keep one in `part`."""
    return all(is_constant(value) for value in list(loop.operands)[:3]) and trip_count(loop) >= part


def keep(loop: ir.Operation, steps: int) -> None:
    """End a loop after so many steps."""
    lower, _, step = (constant(value) for value in list(loop.operands)[:3])
    with ir.InsertionPoint(loop), loop.location:
        loop.operands[1] = index(lower + steps * step)


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
    """Tell whether every iteration of a loop writes elements of its own: indices that follow from its number."""
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
