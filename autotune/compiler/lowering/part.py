"""A part of a program: one in so many iterations of its long loops, the outermost of every nest.

It takes that share of the time, whatever the program is lowered by, so that what one call of a slow program takes can
be known without making the call. Of its results those are right that follow from what was run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import every_name, run_passes, symbol
from autotune.compiler.ir.values import constant, index, is_constant, trip_count
from autotune.compiler.lowering.part_facts import FOR, inside, poison, why_unverifiable, work
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
