"""Handles of a transform script: one that is used must hold something, else the transform would silently do nothing.

Most ops of the transform dialect accept a handle of nothing, and do nothing. So that this holds for whatever a family
writes, plug-ins and edited bundles included, the checks are put into the parsed script, not into its text.
"""

from collections.abc import Iterator
from itertools import pairwise

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.core.scripts.marks import FOREIGN, OPTIONAL

ENTRY = "__transform_main"
GREATER = 4  # a predicate of transform.match.param.cmpi
HANDLES = ("!transform.any_op", "!transform.op<", "!transform.any_value")


def insist(transform: ir.Module) -> None:
    """Put a check behind every op of a script whose handles are used; it has the location of that op, and a constraint.

    Left out are ops that are marked `OPTIONAL`; sequences that are marked `FOREIGN`, as of scripts of a user's own; and
    the entry, which is the engine's own and says what it expects.
    """
    for sequence in transform.body.operations:
        named = sequence.operation.name == "transform.named_sequence" and symbol(sequence) != ENTRY
        if named and FOREIGN not in sequence.operation.attributes:
            for op, behind in list(neighbours(sequence.operation)):
                insist_on(op, behind)


def neighbours(scope: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """Every op below `scope` that must find something, and the op behind it."""
    for block in (block for region in scope.regions for block in region.blocks):
        for op, behind in pairwise(each.operation for each in block.operations):
            if OPTIONAL not in op.attributes:
                yield op, behind
            yield from neighbours(op)


def insist_on(op: ir.Operation, behind: ir.Operation) -> None:
    """Check the results of an op that are used, before the op behind it."""
    for index, result in enumerate(op.results):
        if str(result.type).startswith(HANDLES) and list(result.uses):
            must = f"a handle that is used must hold something, result {index} is empty; mark {OPTIONAL} if it may be"
            with ir.Location.name(must, op.location), ir.InsertionPoint(behind):
                must_hold(result)


def must_hold(handle: ir.Value) -> None:
    """Write the ops that fail on an empty handle."""
    number, word = ir.Type.parse("!transform.param<i64>"), ir.IntegerType.get_signless(64)
    count = ir.Operation.create("transform.num_associations", [number], [handle])
    zero = {"value": ir.IntegerAttr.get(word, 0)}
    none = ir.Operation.create("transform.param.constant", [number], attributes=zero)
    greater = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), GREATER)}
    ir.Operation.create("transform.match.param.cmpi", operands=[count.result, none.result], attributes=greater)
