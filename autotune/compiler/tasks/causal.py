"""Causal masks: which loops of a group run over elements that no result depends on.

A mask keeps column ``j`` of row ``i`` where ``j <= i``, or ``j <= i mod t`` where heads share keys and their rows lie
below each other, and puts a very low number elsewhere. What an exponential makes of that is 0, and maxima, sums and
products take nothing from it: then whatever else is computed of the columns behind the diagonal need not be. Each op's
body is evaluated once for such an element. As the mask does, this takes for granted that scores are small beside the
number it puts, and that what they are multiplied with is finite.
"""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import constant, is_constant, loop_of_index, maker
from autotune.core.payload import MASKED

# What is known of a value behind the diagonal. KEPT: an accumulator that took nothing from it.
LOW, ZERO, KEPT, ANY = "low", "zero", "kept", "any"
RESULTS: dict[tuple[str, ...], str] = {  # by the first operand, whatever the second is, or by both
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
ORDERS = {  # of arith.cmpi, by number; what they say of a column and its row behind the diagonal
    **dict.fromkeys((0, 2, 3, 6, 7), False),  # eq, slt, sle, ult, ule
    **dict.fromkeys((1, 4, 5, 8, 9), True),  # ne, sgt, sge, ugt, uge
}
SWAPPED = {0: 0, 1: 1, 2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}
FLOATS = (ir.F32Type, ir.BF16Type)
REMAINDERS = ("arith.remui", "arith.remsi")  # of an index, which is never below 0


def mask_period(ops: Sequence[ir.Operation], rows: int) -> int:
    """Rows after which the mask of a group, by `masked_loops`, begins again; 0 if it does not.

    Args:
        ops: The group.
        rows: Number of loops over rows.
    """
    return max((period for op in ops for _, period in compared_with(op, rows - 1)), default=0)


def masked_loops(ops: Sequence[ir.Operation], rows: int) -> list[int | None]:
    """For each op of a group, its loop over columns of which those behind the diagonal need not be computed, if any.

    All are `None` unless the group has a causal mask, the same in all its ops, and sums over its columns.

    Args:
        ops: The group: root first, every op before those that it reads. Their first loops are the group's rows.
        rows: Number of loops over rows; the last of them is the mask's row.
    """
    none: list[int | None] = [None] * len(ops)
    found = [(op, *each) for op in ops for each in compared_with(op, rows - 1)]
    columns = column_loops(ops, rows, {op: column for op, column, _ in found})
    if len({period for _, _, period in found}) > 1:
        return none
    if columns is None or (ops[0] in columns and columns[ops[0]] in dimensions(indexing_maps(ops[0])[-1])):
        return none  # no mask, or its columns are results
    known: dict[ir.Value, str] = {}
    for op in reversed(ops):
        if op not in columns:
            known[op.results[0]] = ANY
            continue
        value = evaluate(op, rows - 1, columns[op], known)
        reduced = columns[op] not in dimensions(indexing_maps(op)[-1])
        if reduced and value != KEPT:
            return none
        known[op.results[0]] = ANY if reduced else value
    return [columns.get(op) for op in ops]


def column_loops(
    ops: Sequence[ir.Operation], rows: int, some: Mapping[ir.Operation, int]
) -> dict[ir.Operation, int] | None:
    """The loop over the columns in every op that has one; `None` if there are none, or they do not line up.

    Args:
        ops: The group: root first, every op before those that it reads.
        rows: Number of each op's first loops that are the group's rows.
        some: The loop of some of them.
    """
    found = dict(some)
    made = {op.results[0]: op for op in ops}
    edges = [
        (op, made[value], dimensions(indexing_maps(op)[number]))
        for op in ops
        for number, value in enumerate(op.operands)
        if value in made
    ]
    if any(read[:rows] != list(range(rows)) for _, _, read in edges):
        return None
    grown = True
    while found and grown:
        grown = False
        for reader, made_by, read in edges:
            written = dimensions(indexing_maps(made_by)[-1])
            for here, there in zip(read, written, strict=True):
                if runs_over(reader, here, found) != runs_over(made_by, there, found):
                    if here is None or there is None or (reader in found and made_by in found):
                        return None
                    grown = True
                    found.setdefault(reader, here)
                    found.setdefault(made_by, there)
    return found or None


def runs_over(op: ir.Operation, loop: int | None, columns: Mapping[ir.Operation, int]) -> bool:
    """Tell whether a loop of an op is known to be the one over columns."""
    return loop is not None and columns.get(op) == loop


def compared_with(op: ir.Operation, row: int) -> Iterator[tuple[int, int]]:
    """Loops that an op's body compares with its loop `row`, and the period of that; 0 for none."""
    for inner in body(op):
        if inner.name == "arith.cmpi":
            found = [index_of(value) for value in inner.operands]
            for (mine, period), (other, again) in (found, found[::-1]):
                if mine == row and other not in (row, None) and not again:
                    yield other, period


def index_of(value: ir.Value) -> tuple[int | None, int]:
    """The loop whose index a value is, `None` if it is something else, and what it is the remainder by, or 0."""
    made_by = maker(value)
    if made_by is None or made_by.name not in REMAINDERS:
        return loop_of_index(value), 0
    period = constant(made_by.operands[1]) if is_constant(made_by.operands[1]) else 0
    return (loop_of_index(made_by.operands[0]) if period > 0 else None), period


def body(op: ir.Operation) -> list[ir.Operation]:
    """The scalar ops of a structured op, its yield last."""
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def evaluate(op: ir.Operation, row: int, column: int, known: Mapping[ir.Value, str]) -> str:
    """What one op makes of an element behind the diagonal.

    Args:
        op: A structured op.
        row: Position of the op's loop over rows.
        column: Position of the op's loop over columns.
        known: What was found out about the results of the ops before it.
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
    """What is known of a value inside a body; constants tell themselves."""
    if value in values:
        return values[value]
    made_by = maker(value)
    if made_by is None or made_by.name != "arith.constant" or not isinstance(value.type, FLOATS):
        return ANY
    number = float(ir.FloatAttr(made_by.attributes["value"]).value)
    return LOW if number <= MASKED else ZERO if number == 0 else ANY


def compute(op: ir.Operation, operands: Sequence[str], row: int, column: int) -> str:
    """The result of one scalar op."""
    if op.name == "arith.select":
        taken = holds(maker(op.operands[0]), row, column)
        return ANY if taken is None else operands[1] if taken else operands[2]
    if op.name == "arith.mulf" and ZERO in operands:
        return ZERO
    return RESULTS.get((op.name, *operands[:1]), RESULTS.get((op.name, *operands), ANY))


def holds(comparison: ir.Operation | None, row: int, column: int) -> bool | None:
    """Whether a comparison of column and row is true behind the diagonal; `None` for any other condition."""
    if comparison is None or comparison.name != "arith.cmpi":
        return None
    order = int(ir.IntegerAttr(comparison.attributes["predicate"]).value)
    found = [index_of(value) for value in comparison.operands]
    loops = [loop for loop, _ in found]
    if (column, 0) not in found:
        return None
    if loops == [row, column]:
        order = SWAPPED[order]
    elif loops != [column, row]:
        return None
    return ORDERS[order]
