"""What a program may hold that is compiled and run, so that whoever gets a bundle of it can check and replay it.

A fault is the rest of a sentence that begins with where the program is: ``must ..., it ...``.
"""

import re
from collections.abc import Iterator

from mlir import ir

from autotune.compiler.module import symbol

COMPUTING = (
    "builtin",
    "func",
    "linalg",
    "tensor",
    "arith",
    "math",
    "memref",
    "bufferization",
    "scf",
    "affine",
    "vector",
    "index",
    "ub",
)
MOST_NESTING = 200  # brackets; MLIR's parser descends into each, and its stack is finite


def nesting_fault(text: str) -> str | None:
    """What is wrong with text nested so deep that a parser might not come back; `None` if nothing is."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}<>]", re.sub(r"->|[<>]=", "", text)):
        depth += 1 if bracket in "[({<" else -1
        deepest = max(deepest, depth)
    return (
        f"must not nest deeper than {MOST_NESTING} brackets, it goes to {deepest}" if deepest > MOST_NESTING else None
    )


def program_fault(module: ir.Module) -> str | None:
    """What a program does besides computing, such as calling somebody outside; `None` if nothing."""
    for op in every_op(module):
        if (fault := dialect_fault(op, COMPUTING)) is not None:
            return fault
        if op.name == "func.func" and not list(op.regions[0].blocks):
            return f"must define every function it calls, @{symbol(op)} is outside"
    return None


def dialect_fault(op: ir.Operation, allowed: tuple[str, ...]) -> str | None:
    """What is wrong with an op of another dialect than the allowed ones."""
    if op.name.partition(".")[0] in allowed:
        return None
    return f"must hold ops of {', '.join(allowed)} alone, it has {op.name}"


def every_op(module: ir.Module) -> Iterator[ir.Operation]:
    """Every operation below a module."""
    stack = [module.operation]
    while stack:
        op = stack.pop()
        yield op
        stack += [inner.operation for region in op.regions for block in region.blocks for inner in block.operations]
