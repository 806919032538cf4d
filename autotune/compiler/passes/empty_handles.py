"""Make transform scripts fail on empty handles, on which transforms would silently do nothing.

Most transform ops accept an empty handle, and do nothing. The checks are inserted into the parsed script rather than
its text, so that they apply to scripts of any family, including plug-ins and edited bundles.
"""

from collections.abc import Iterator
from itertools import pairwise

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.core.scripts.marks import FOREIGN, OPTIONAL

ENTRY = "__transform_main"
GREATER = 4  # predicate of transform.match.param.cmpi
HANDLES = ("!transform.any_op", "!transform.op<", "!transform.any_value")


def insist(transform: ir.Module) -> None:
    """Insert a check after every op of a script whose handles are used; its location names the op and the constraint.

    Excluded are ops marked `OPTIONAL`; sequences marked `FOREIGN`, as those of user scripts; and the entry sequence,
    which the engine generates with its own checks.
    """
    for sequence in transform.body.operations:
        named = sequence.operation.name == "transform.named_sequence" and symbol(sequence) != ENTRY
        if named and FOREIGN not in sequence.operation.attributes:
            for op, behind in list(neighbours(sequence.operation)):
                insist_on(op, behind)


def neighbours(scope: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """Yield every op nested in `scope` that is not optional, and its next op."""
    for block in (block for region in scope.regions for block in region.blocks):
        for op, behind in pairwise(each.operation for each in block.operations):
            if OPTIONAL not in op.attributes:
                yield op, behind
            yield from neighbours(op)


def insist_on(op: ir.Operation, behind: ir.Operation) -> None:
    """Insert checks of the used handles of an op, before its next op."""
    for index, result in enumerate(op.results):
        if str(result.type).startswith(HANDLES) and list(result.uses):
            must = f"a handle that is used must hold something, result {index} is empty; mark {OPTIONAL} if it may be"
            with ir.Location.name(must, op.location), ir.InsertionPoint(behind):
                must_hold(result)


def must_hold(handle: ir.Value) -> None:
    """Build the ops that fail on an empty handle."""
    param_type, i64 = ir.Type.parse("!transform.param<i64>"), ir.IntegerType.get_signless(64)
    count = ir.Operation.create("transform.num_associations", [param_type], [handle])
    zero = {"value": ir.IntegerAttr.get(i64, 0)}
    zero_param = ir.Operation.create("transform.param.constant", [param_type], attributes=zero)
    greater = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), GREATER)}
    ir.Operation.create("transform.match.param.cmpi", operands=[count.result, zero_param.result], attributes=greater)
