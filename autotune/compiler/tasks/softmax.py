"""What of a group can be carried from one block of its columns to the next: sums under the maximum of a softmax."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import is_fresh, start_value
from autotune.compiler.tasks.causal import body, column_loops
from autotune.compiler.tasks.groups import can_join, rows_in
from autotune.compiler.tasks.read_op import read_op

NEGLIGIBLE = 2.0**-30  # beside 1, in f32


@dataclass(frozen=True)
class Plan:
    """What of a group can be carried from one block of columns to the next.

    Attributes:
        ops: The group in program order, its root last.
        rows: Number of leading loops that are rows.
        columns: The loop over columns of every op that has one.
        maximum: The reduction whose result may still rise.
        exponential: The op that takes it off, and raises e to the rest.
    """

    ops: tuple[ir.Operation, ...]
    rows: int
    columns: Mapping[ir.Operation, int]
    maximum: ir.Operation
    exponential: ir.Operation

    def reduces(self, op: ir.Operation) -> bool:
        """Tell whether an op sums, or looks for the largest, along the columns."""
        return op in self.columns and self.columns[op] not in dimensions(indexing_maps(op)[-1])


def find_plan(ops: Sequence[ir.Operation]) -> Plan | None:
    """How to carry a group's sums over its columns; `None` if it does not divide by a softmax's sum.

    Args:
        ops: The group: root first, every op before those that it reads.
    """
    if any(None in dimensions(amap) for op in ops for amap in indexing_maps(op)):
        return None  # what of an operand belongs to a block is not known
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
    """Tell whether a higher maximum is but a factor to all sums: they add up exponentials, and no other op reads it."""
    alone = readers(maximum) == {exponential} and exponential.operands[1] == maximum.results[0]
    return alone and readers(exponential) == sums and all(is_linear(op, exponential) for op in sums)


def is_shifted_exponential(op: ir.Operation) -> bool:
    """Tell whether an op of f32 raises e to its first operand less its second."""
    if names(op) != ["arith.subf", "math.exp"] or len(op.operands) != 3:
        return False
    first, second, _ = op.regions[0].blocks[0].arguments
    shift, power, result = body(op)
    taken = list(shift.operands) == [first, second] and list(power.operands) == list(shift.results)
    return taken and list(result.operands) == list(power.results) and isinstance(first.type, ir.F32Type)


def is_linear(op: ir.Operation, exponential: ir.Operation) -> bool:
    """Tell whether a reduction adds up exponentials from zero, alone or times something else.

    Alone from next to zero, too: the largest of a row is 1, beside which that is nothing.
    """
    start = start_value(op)
    if op.operands[0] != exponential.results[0]:
        return False
    return (adds(op) and 0.0 <= start <= NEGLIGIBLE) or (start == 0.0 and bool(linalg.isa_contraction_op(op)))


def adds(op: ir.Operation) -> bool:
    """Tell whether an op adds its one operand up."""
    arguments = list(op.regions[0].blocks[0].arguments)
    return names(op) == ["arith.addf"] and set(body(op)[0].operands) == set(arguments) and len(arguments) == 2


def starts_anew(op: ir.Operation) -> bool:
    """Tell whether an op's destination is filled with a constant, or never read."""
    last = len(op.operands) - 1
    return is_fresh(op, last, last)


def names(op: ir.Operation) -> list[str]:
    """Names of the scalar ops of a structured op, without its yield."""
    return [inner.name for inner in body(op)[:-1]]


def readers(op: ir.Operation) -> set[ir.Operation]:
    """The ops that read an op's result."""
    return {use.owner.operation for use in op.results[0].uses}
