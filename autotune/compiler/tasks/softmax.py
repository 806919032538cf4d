"""Match groups that an online softmax can compute block by block: sums of exponentials under a running maximum."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import is_fresh, start_value
from autotune.compiler.tasks.causal import body, column_loops
from autotune.compiler.tasks.groups import can_join, rows_in
from autotune.compiler.tasks.read_op import read_op

NEGLIGIBLE = 2.0**-30  # rounded off when added to 1 in f32


@dataclass(frozen=True)
class Plan:
    """Operations of a group that carry state from one block of columns to the next.

    Attributes:
        ops: Operations of the group in program order, the root last.
        rows: Number of leading loops that are rows.
        columns: Loop over columns of every operation that has one.
        maximum: Reduction that computes the running maximum.
        exponential: Operation that computes exp(x - maximum).
    """

    ops: tuple[ir.Operation, ...]
    rows: int
    columns: Mapping[ir.Operation, int]
    maximum: ir.Operation
    exponential: ir.Operation

    def reduces(self, op: ir.Operation) -> bool:
        """Return whether an operation reduces along the columns."""
        return op in self.columns and self.columns[op] not in dimensions(indexing_maps(op)[-1])


def find_plan(ops: Sequence[ir.Operation]) -> Plan | None:
    """Return the plan of an online softmax; `None` if the group does not match.

    Args:
        ops: Operations of the group: root first, consumers before producers.
    """
    if any(None in dimensions(amap) for op in ops for amap in indexing_maps(op)):
        return None  # the slice of an operand that belongs to a block is unknown
    root, shifted = read_op(ops[0]), [op for op in ops if is_shifted_exponential(op)]
    if root is None or not can_join(ops[0], root) or len(shifted) != 1 or not all(map(starts_anew, ops)):
        return None
    rows = rows_in(root)
    if rows < 1:
        return None
    (exponential,) = shifted
    products = [op for op in readers(exponential) if linalg.isa_contraction_op(op)]
    columns = column_loops(ops, rows, dict.fromkeys(products, rows + 1))
    if columns is None or ops[0] in columns:
        return None
    reductions = {op for op in columns if columns[op] not in dimensions(indexing_maps(op)[-1])}
    maxima = [op for op in reductions if names(op) in (["arith.maximumf"], ["arith.maxnumf"]) and len(op.operands) == 2]
    if len(maxima) != 1 or not corrects(maxima[0], exponential, reductions - set(maxima)):
        return None
    return Plan(tuple(reversed(ops)), rows, columns, maxima[0], exponential)


def corrects(maximum: ir.Operation, exponential: ir.Operation, sums: Set[ir.Operation]) -> bool:
    """Return whether a change of the maximum only scales the sums: all are linear in the exponentials, its only use."""
    is_only_user = readers(maximum) == {exponential} and exponential.operands[1] == maximum.results[0]
    return is_only_user and readers(exponential) == sums and all(is_linear(op, exponential) for op in sums)


def is_shifted_exponential(op: ir.Operation) -> bool:
    """Return whether an operation computes exp(a - b) of its operands in f32."""
    if names(op) != ["arith.subf", "math.exp"] or len(op.operands) != 3:
        return False
    first, second, _ = op.regions[0].blocks[0].arguments
    shift, power, result = body(op)
    is_chained = list(shift.operands) == [first, second] and list(power.operands) == list(shift.results)
    return is_chained and list(result.operands) == list(power.results) and isinstance(first.type, ir.F32Type)


def is_linear(op: ir.Operation, exponential: ir.Operation) -> bool:
    """Return whether a reduction sums exponentials, or their products with another operand, from zero.

    A plain sum may also start from a negligible number, as the largest exponential of a row is 1.
    """
    start = start_value(op)
    if op.operands[0] != exponential.results[0]:
        return False
    return (adds(op) and 0.0 <= start <= NEGLIGIBLE) or (start == 0.0 and bool(linalg.isa_contraction_op(op)))


def adds(op: ir.Operation) -> bool:
    """Return whether an operation is a plain sum of its only input."""
    arguments = list(op.regions[0].blocks[0].arguments)
    return names(op) == ["arith.addf"] and set(body(op)[0].operands) == set(arguments) and len(arguments) == 2


def starts_anew(op: ir.Operation) -> bool:
    """Return whether the destination of an operation is filled with a constant, or never read."""
    last = len(op.operands) - 1
    return is_fresh(op, last, last)


def names(op: ir.Operation) -> list[str]:
    """Return the names of the scalar operations in the body of a structured operation, without the terminator."""
    return [inner.name for inner in body(op)[:-1]]


def readers(op: ir.Operation) -> set[ir.Operation]:
    """Return the users of the result of an operation."""
    return {use.owner.operation for use in op.results[0].uses}
