"""Causal masks: find the loops of a group whose iterations above the diagonal cannot affect any result.

A mask keeps column ``j`` of row ``i`` if ``j <= i``, or ``j <= i mod t`` if heads share keys and their rows are
stacked, and replaces other elements by a large negative number. The exponential maps these to 0, which does not change
maxima, sums and products, so columns above the diagonal need not be computed. The body of each operation is evaluated
once, abstractly, for such an element. As the mask does, this assumes that scores are small compared to the masking
number, and that their factors are finite.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import constant, is_constant, loop_of_index, maker
from autotune.core.payload import MASKED

# Abstract values of an element above the diagonal. KEPT: an accumulator that the element did not change.
LOW, ZERO, KEPT, ANY = "low", "zero", "kept", "any"
RESULTS: dict[tuple[str, ...], str] = {  # transfer function, by the first operand only, or by both
    ("arith.addf", LOW): LOW,
    ("arith.addf", ANY, LOW): LOW,
    ("arith.subf", LOW): LOW,
    ("math.exp", LOW): ZERO,
    ("arith.divf", ZERO): ZERO,
    **{(f"arith.{name}", each): each for name in ("extf", "truncf") for each in (LOW, ZERO)},
    ("arith.addf", KEPT, ZERO): KEPT,
    ("arith.addf", ZERO, KEPT): KEPT,
    **{(f"arith.{name}", *both): KEPT for name in ("maximumf", "maxnumf") for both in ((KEPT, LOW), (LOW, KEPT))},
}
ORDERS = {  # value of <column> <predicate> <row> above the diagonal, by predicate of arith.cmpi
    **dict.fromkeys((0, 2, 3, 6, 7), False),  # eq, slt, sle, ult, ule
    **dict.fromkeys((1, 4, 5, 8, 9), True),  # ne, sgt, sge, ugt, uge
}
SWAPPED = {0: 0, 1: 1, 2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}
FLOATS = (ir.F32Type, ir.BF16Type)
REMAINDERS = ("arith.remui", "arith.remsi")  # both are equal for an index, which is never negative


@dataclass(frozen=True)
class CausalMask:
    """Causal mask of a group.

    Attributes:
        columns: Loop over masked columns of each operation that has one.
        period: Number of rows after which the mask repeats; 0 if it does not.
    """

    columns: Mapping[ir.Operation, int]
    period: int


def causal_mask(ops: Sequence[ir.Operation], rows: int) -> CausalMask | None:
    """Return the mask of a group; `None` unless it has one causal mask and reduces over the masked columns.

    Args:
        ops: Operations of the group: root first, consumers before producers. Their first loops are the rows.
        rows: Number of loops over rows; the last of them is the row of the mask.
    """
    comparisons = [(op, *each) for op in ops for each in compared_with(op, rows - 1)]
    columns = column_loops(ops, rows, {op: column for op, column, _ in comparisons})
    periods = {period for _, _, period in comparisons}
    if columns is None or len(periods) > 1:
        return None
    if ops[0] in columns and columns[ops[0]] in dimensions(indexing_maps(ops[0])[-1]):
        return None  # its columns are results
    known: dict[ir.Value, str] = {}
    for op in reversed(ops):
        if op not in columns:
            known[op.results[0]] = ANY
            continue
        value = evaluate(op, rows - 1, columns[op], known)
        reduced = columns[op] not in dimensions(indexing_maps(op)[-1])
        if reduced and value != KEPT:
            return None
        known[op.results[0]] = ANY if reduced else value
    return CausalMask(columns, *periods)


def column_loops(
    ops: Sequence[ir.Operation], rows: int, some: Mapping[ir.Operation, int]
) -> dict[ir.Operation, int] | None:
    """Propagate the loop over columns along def-use edges; return `None` if there is none, or on a conflict.

    Args:
        ops: Operations of the group: root first, consumers before producers.
        rows: Number of leading loops of each operation that are rows.
        some: Loops over columns that are known, by operation.
    """
    loops = dict(some)
    producers = {op.results[0]: op for op in ops}
    edges = [
        (op, producers[value], dimensions(indexing_maps(op)[number]))
        for op in ops
        for number, value in enumerate(op.operands)
        if value in producers
    ]
    if any(read[:rows] != list(range(rows)) for _, _, read in edges):
        return None
    grown = True
    while loops and grown:
        grown = False
        for reader, producer, read in edges:
            written = dimensions(indexing_maps(producer)[-1])
            for here, there in zip(read, written, strict=True):
                if runs_over(reader, here, loops) != runs_over(producer, there, loops):
                    if here is None or there is None or (reader in loops and producer in loops):
                        return None
                    grown = True
                    loops.setdefault(reader, here)
                    loops.setdefault(producer, there)
    return loops or None


def runs_over(op: ir.Operation, loop: int | None, columns: Mapping[ir.Operation, int]) -> bool:
    """Return whether a loop of an operation is known to be the one over columns."""
    return loop is not None and columns.get(op) == loop


def compared_with(op: ir.Operation, row: int) -> Iterator[tuple[int, int]]:
    """Yield loops whose index the body of an operation compares with that of loop `row`, and the period of the row.

    The period is the divisor if the remainder of the row is compared, else 0.
    """
    for inner in body(op):
        if inner.name == "arith.cmpi":
            indices = [index_of(value) for value in inner.operands]
            for (lhs, period), (rhs, rhs_period) in (indices, indices[::-1]):
                if lhs == row and rhs not in (row, None) and not rhs_period:
                    yield rhs, period


def index_of(value: ir.Value) -> tuple[int | None, int]:
    """Return the loop whose index a value is, or `None`, and the divisor if it is a remainder, or 0."""
    producer = maker(value)
    if producer is None or producer.name not in REMAINDERS:
        return loop_of_index(value), 0
    period = constant(producer.operands[1]) if is_constant(producer.operands[1]) else 0
    return (loop_of_index(producer.operands[0]) if period > 0 else None), period


def body(op: ir.Operation) -> list[ir.Operation]:
    """Return the scalar operations in the body of a structured operation, terminator last."""
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def evaluate(op: ir.Operation, row: int, column: int, known: Mapping[ir.Value, str]) -> str:
    """Return the abstract value that an operation yields for an element above the diagonal.

    Args:
        op: Structured operation.
        row: Loop over rows.
        column: Loop over columns.
        known: Abstract values of the results of preceding operations.
    """
    reads = [dimensions(amap) for amap in indexing_maps(op)]
    values: dict[ir.Value, str] = {}
    for argument, operand, read in zip(op.regions[0].blocks[0].arguments, op.operands, reads, strict=True):
        values[argument] = known.get(operand, ANY) if column in read else ANY
    if column not in reads[-1]:
        values[op.regions[0].blocks[0].arguments[len(reads) - 1]] = KEPT
    *inside, last = body(op)
    for inner in inside:
        if len(inner.results) == 1:
            values[inner.results[0]] = compute(inner, [look_up(v, values) for v in inner.operands], row, column)
    return look_up(last.operands[0], values)


def look_up(value: ir.Value, values: Mapping[ir.Value, str]) -> str:
    """Return the abstract value of a value in a body; constants are classified by their value."""
    if value in values:
        return values[value]
    producer = maker(value)
    if producer is None or producer.name != "arith.constant" or not isinstance(value.type, FLOATS):
        return ANY
    number = float(ir.FloatAttr(producer.attributes["value"]).value)
    return LOW if number <= MASKED else ZERO if number == 0 else ANY


def compute(op: ir.Operation, operands: Sequence[str], row: int, column: int) -> str:
    """Return the abstract value of the result of a scalar operation."""
    if op.name == "arith.select":
        condition = holds(maker(op.operands[0]), row, column)
        return ANY if condition is None else operands[1] if condition else operands[2]
    if op.name == "arith.mulf" and ZERO in operands:
        return ZERO
    return RESULTS.get((op.name, *operands[:1]), RESULTS.get((op.name, *operands), ANY))


def holds(comparison: ir.Operation | None, row: int, column: int) -> bool | None:
    """Return whether a comparison of column and row is true above the diagonal; `None` for any other condition."""
    if comparison is None or comparison.name != "arith.cmpi":
        return None
    order = int(ir.IntegerAttr(comparison.attributes["predicate"]).value)
    indices = [index_of(value) for value in comparison.operands]
    loops = [loop for loop, _ in indices]
    if (column, 0) not in indices:
        return None
    if loops == [row, column]:
        order = SWAPPED[order]
    elif loops != [column, row]:
        return None
    return ORDERS[order]
