"""Operations that no task covers: structured operations that cannot be outlined, pads, and loops of scalar code."""

from collections import Counter
from collections.abc import Collection, Iterator
from math import prod

from mlir import ir

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import UNTUNABLE, element_type, loop_nest, trips_of
from autotune.core.ops.uncovered import UncoveredOp
from autotune.core.payload import DTYPES
from autotune.core.task_names import KINDS

PLAIN = ("tensor.pad", "tensor.generate", "tensor.concat", "tensor.scatter", "tensor.gather", "linalg.softmax")
LOOPS = ("scf.for", "scf.while", "scf.parallel", "scf.forall", "affine.for", "affine.parallel")
ENDS = ("linalg.yield", "scf.yield", "affine.yield", "tensor.yield", "linalg.index")  # these cost nothing


def uncovered_ops(function: ir.Operation, covered: Collection[ir.Operation]) -> tuple[UncoveredOp, ...]:
    """Return the operations that do work but are in no task, grouped by name and reason.

    Args:
        function: Entry function.
        covered: Structured operations of the function that are in a task.
    """
    runs: Counter[tuple[str, str]] = Counter()
    operations: Counter[tuple[str, str]] = Counter()
    for op, trips in left_over(function.regions[0].blocks[0], covered):
        key = (name_of(op), why_uncovered(op))
        runs[key] += trips
        operations[key] += trips * work_of(op)
    return tuple(UncoveredOp(name, runs[name, why], float(operations[name, why]), why) for name, why in runs)


def left_over(block: ir.Block, covered: Collection[ir.Operation], trips: int = 1) -> Iterator[tuple[ir.Operation, int]]:
    """Yield operations that no task covers, with their executions per call; only loops of scalar code stay whole."""
    for view in block.operations:
        op = view.operation
        if op in covered or op.name in UNTUNABLE:
            continue
        if op.name.startswith("linalg.") or op.name in PLAIN or (op.name in LOOPS and not holds_structured(op)):
            yield op, trips
            continue
        inner = trips * trips_of(op) if op.name == "scf.for" else trips
        for region in op.regions:
            for nested in region.blocks:
                yield from left_over(nested, covered, inner)


def holds_structured(op: ir.Operation) -> bool:
    """Return whether a structured operation or pad is nested in an operation."""
    inner = (each.operation for region in op.regions for block in region.blocks for each in block.operations)
    return any(each.name.startswith("linalg.") or each.name in PLAIN or holds_structured(each) for each in inner)


def work_of(op: ir.Operation) -> int:
    """Return the scalar operations of one execution; those of one element if sizes are unknown."""
    body = sum(map(inner_work, op.regions)) or 1
    if op.name in LOOPS:
        return body * (trips_of(op) if op.name == "scf.for" else 1)
    nest = loop_nest(op) if op.name.startswith("linalg.") else None
    return body * prod(nest.sizes if nest is not None else sizes_of(op))


def inner_work(region: ir.Region) -> int:
    """Return the scalar operations of one execution of a region."""
    ops = (each.operation for block in region.blocks for each in block.operations)
    return sum(work_of(op) if op.name in LOOPS else 1 for op in ops if op.name not in ENDS)


def sizes_of(op: ir.Operation) -> tuple[int, ...]:
    """Return the shape of the first tensor result of an operation; empty if it has none of static shape."""
    results = [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
    if not results or not results[0].type.has_static_shape:
        return ()
    return tuple(static_shape(results[0]))


def name_of(op: ir.Operation) -> str:
    """Return kind and sizes, in the form of readable task names."""
    nest = loop_nest(op) if op.name.startswith("linalg.") else None
    kind = op.name.removeprefix("linalg.").removeprefix("tensor.")
    sizes = "x".join(map(str, nest.sizes if nest is not None else sizes_of(op)))
    return f"{KINDS.get(kind, kind)} {sizes}".strip()


def why_uncovered(op: ir.Operation) -> str:
    """Return why an operation is in no task, as a phrase."""
    if not op.name.startswith("linalg."):
        return "it is a loop of single elements" if op.name in LOOPS else f"{op.name} has no schedules"
    nest = loop_nest(op)
    if nest is None or not nest.sizes:
        return "its sizes are not known before it runs" if nest is None else "it computes one number"
    element_types = [element_type(value) for value in (*op.operands, *op.results)]
    if unknown := [kind for kind in element_types if kind not in DTYPES]:
        return f"it computes with {unknown[0]}"
    inner = {each.operation.name for region in op.regions for block in region.blocks for each in block.operations}
    if "tensor.extract" in inner:
        return "its body reads elements of tensors at computed indices"
    return "its body reads what is computed outside of it"
