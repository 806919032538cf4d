"""Truncate a program to a part: one in `part` iterations of its long loops, the outermost of every nest.

The part takes that share of the run time, with any pass pipeline, so that the time of one call of a slow program can be
estimated without making the call. Those of its results that depend only on iterations that ran are correct.

To tell them apart, what was not computed is NaN: outputs before a call, and intermediates, which `poison` fills when
they are allocated. NaN propagates to what depends on it, and all other elements must be correct. This fails if a
program hides NaN, or if a truncated loop accumulates into what it wrote before.
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
    """Properties of a truncated program.

    Attributes:
        scale: Operations executed by the whole program divided by those of the part: factor for its run time.
        unverifiable: Reason why its results cannot be verified; empty if they can.
    """

    scale: float = 1.0
    unverifiable: str = ""


def run_part(module: ir.Module, pipeline: str, part: int, *, whole: str, poisoned: bool = False) -> Part:
    """Run a pass pipeline, and truncate loops as soon as all linalg ops are lowered to loops.

    Args:
        module: Module to run it on, in place.
        pipeline: Textual pass pipeline, ``builtin.module(...)``.
        part: Divisor of the trip counts.
        whole: Name of a function to leave unchanged.
        poisoned: Whether to fill allocations with NaN, so that missing results show.

    Raises:
        CompileError: Stage ``lower``: a pass fails, or no pass leaves loops that are long enough.
    """
    passes = split_pipeline(pipeline)
    for done, name in enumerate(passes, 1):
        run_passes(module, f"{MODULE}{name})")
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
    """Split a pipeline into its module-level passes, in order; nested pipelines stay whole.

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
    """Return whether a module is bufferized and has no linalg ops."""
    names = every_name(module)
    tensors = any(name.startswith(("tensor.", "bufferization.")) for name in names)
    return not tensors and not any(name.startswith("linalg.") for name in names)


def long_loops(op: ir.OpView | ir.Operation, part: int) -> Iterator[ir.Operation]:
    """Yield the outermost loops in an op that `is_long` accepts."""
    for inner in inside(op):
        if inner.operation.name == FOR and is_long(inner.operation, part):
            yield inner.operation
        else:
            yield from long_loops(inner, part)


def is_long(loop: ir.Operation, part: int) -> bool:
    """Return whether a loop has constant bounds and at least `part` iterations."""
    return all(is_constant(value) for value in list(loop.operands)[:3]) and trip_count(loop) >= part


def keep(loop: ir.Operation, steps: int) -> None:
    """Truncate a loop to `steps` iterations."""
    lower, _, step = (constant(value) for value in list(loop.operands)[:3])
    with ir.InsertionPoint(loop), loop.location:
        loop.operands[1] = index(lower + steps * step)


FOR, ALLOCATE = "scf.for", ("memref.alloc", "memref.alloca")
WRITE = (  # ops that write to memory; operands after the first determine where
    "memref.store",
    "memref.copy",
    "memref.atomic_rmw",
    "vector.store",
    "vector.transfer_write",
    "vector.maskedstore",
    "vector.scatter",
)
HIDE = (  # ops that may turn NaN into a number
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
    """Return the number of operations that one execution of an op executes; loops of unknown trip count count once."""
    trips = trips_of(op.operation) if op.operation.name == FOR else 1
    return 1 + trips * sum(work(inner) for inner in inside(op))


def inside(op: ir.OpView | ir.Operation) -> Iterable[ir.OpView]:
    """Return the operations directly nested in an op."""
    return (inner for region in op.regions for block in region.blocks for inner in block.operations)


def why_unverifiable(functions: Sequence[ir.OpView], cut: Sequence[ir.Operation]) -> str:
    """Return why the results of a part cannot be verified; empty if they can.

    Args:
        functions: Functions of the part.
        cut: Truncated loops.
    """
    names, has_integers = set(), False
    for op in everything(functions):
        names.add(op.name)
        has_integers |= op.name in ALLOCATE and not isinstance(op.results[0].type.element_type, ir.FloatType)
    if hiding := sorted(names.intersection(HIDE)):
        return f"{hiding[0]} gives a number for what was not computed"
    if has_integers:
        return "some of its intermediates are whole numbers"
    return "" if all(map(is_apart, cut)) else "a loop of it adds to what it wrote before"


def everything(ops: Iterable[ir.OpView | ir.Operation]) -> Iterable[ir.Operation]:
    """Yield operations and all operations nested in them."""
    for op in ops:
        yield op.operation
        yield from everything(inside(op))


def is_apart(loop: ir.Operation) -> bool:
    """Return whether iterations of a loop write disjoint elements: every store depends on the induction variable."""
    if len(loop.results):
        return False
    dependent: set[ir.Value] = {loop.regions[0].blocks[0].arguments[0]}
    for op in everything(inside(loop)):
        if op.name == "func.call" or (op.name in WRITE and dependent.isdisjoint(list(op.operands)[1:])):
            return False
        if op.name in ALLOCATE or not dependent.isdisjoint(op.operands):
            dependent.update(op.results)
    return True


def poison(module: ir.Module, functions: Sequence[ir.OpView]) -> None:
    """Fill all allocations of functions with NaN, in place, by loops."""
    for op in list(everything(functions)):
        if op.name in ALLOCATE:
            with ir.InsertionPoint.after(op), op.location:
                element = op.results[0].type.element_type
                linalg.fill(arith.constant(element, ir.FloatAttr.get(element, float("nan"))), outs=[op.results[0]])
    run_passes(module, FILL_LOOPS)
