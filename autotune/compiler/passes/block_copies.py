"""Copies of rows: long ones, ones of few vectors and those that a schedule has marked are left to ``memcpy``.

    for i in 0 to 4096 step 16: y[r, i : i + 16] = x[s, i : i + 16]   ->   memcpy(&y[r, 0], &x[s, 0], 16384)

That of the C library knows its processor: where rows leave the caches near the core, it writes lines that were not read
first, as loops of vectors must. Of a few vectors, LLVM writes the copy out. Rows between are copied by vectors: LLVM
would write loops of elements out row after row, and take seconds for each copy of a model.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import memref, scf, vector

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import constant, index, is_constant, loop_of_index
from autotune.compiler.ir.views import DYNAMIC, layout_of
from autotune.compiler.passes.loads import around
from autotune.compiler.passes.marked_loops import counter
from autotune.compiler.passes.rolled_loops import keep_rolled
from autotune.compiler.passes.zeros import BOUNDS
from autotune.core.scripts.marks import ROW_COPY

LEAST_BYTES = 4096  # of a row: loops copy a shorter one in less time than a call and its choices take
INLINE_BYTES = range(64, 257)  # of a row that LLVM copies in a few instructions, without a call and without a loop
VECTOR_BYTES = 64  # of a step where loops copy
BITS_OF_BYTE = 8
BODY = ["vector.load", "vector.store", "scf.yield"]


def copy_blocks(module: ir.Module) -> None:
    """Replace copies of long rows in a bufferized module, in place."""
    ops = every_op(module)
    rows, loops = [op for op in ops if ROW_COPY in op.attributes], [op for op in ops if is_copy_of_row(op)]
    copies = [op for op in ops if op.name == "linalg.copy"]
    for op in rows:  # with one go the ops inside of it, which must not be looked at any more
        copy_read_row(op)
    for copy in copies:
        copy_rows(copy)
    for loop in loops:
        copy_row(loop)


def is_copy_of_row(op: ir.Operation) -> bool:
    """Tell whether an op is a loop that loads vectors, stores them, and nothing else."""
    return op.name == "scf.for" and [each.operation.name for each in op.regions[0].blocks[0].operations] == BODY


def copy_rows(copy: ir.Operation) -> None:
    """Replace a copy of an array, if its last dimensions lie in both arrays as one row, at least a vector long."""
    source, target = copy.operands
    shape = list(source.type.shape)
    lead = max(rows_apart(source.type), rows_apart(target.type))
    if DYNAMIC in shape or bytes_of_row(prod(shape[lead:]), source.type) < VECTOR_BYTES:
        return
    with ir.InsertionPoint(copy), copy.location:
        write_rows((source, target), shape, [], lead)
    copy.erase()


def copy_row(loop: ir.Operation) -> None:
    """Replace a loop that copies one long row by vectors."""
    load, store = (each.operation for each in list(loop.regions[0].blocks[0].operations)[:2])
    source, target = load.operands[0], store.operands[1]
    ends = list(loop.operands)[:BOUNDS]
    if store.operands[0] != load.results[0] or not all(map(is_constant, ends)):
        return
    first, last, step = map(constant, ends)
    accesses = [list(load.operands)[1:], list(store.operands)[2:]]
    outside = [value for indices in accesses for value in indices[:-1]]
    if (last - first) % step or step != prod(load.results[0].type.shape) or any(loop in around(v) for v in outside):
        return
    if (
        any(indices[-1] != counter(loop) for indices in accesses)
        or bytes_of_row(last - first, source.type) < LEAST_BYTES
    ):
        return
    with ir.InsertionPoint(loop), loop.location:
        rows = (
            row(each, [*indices[:-1], ends[0]], [last - first])
            for each, indices in zip((source, target), accesses, strict=True)
        )
        memref.copy(*rows)
    loop.erase()


def copy_read_row(op: ir.Operation) -> None:
    """Replace an op of one row whose elements lie side by side, from an index on that its body computes.

    outs(y: 1 x n): y[0, j] = x[first, j]   ->   memcpy(&y[0, 0], &x[first, 0], 4 n)
    """
    del op.attributes[ROW_COPY]
    if not reads_row(op):
        return
    block, target = op.regions[0].blocks[0], op.operands[len(op.operands) - 1]
    *steps, load, _ = [each.operation for each in block.operations]
    with ir.InsertionPoint(op), op.location:
        zeros = [index(0) for _ in target.type.shape]
        known: dict[ir.Value, ir.Value] = {}
        for argument, operand in zip(list(block.arguments)[:-1], list(op.operands)[:-1], strict=True):
            known[argument] = memref.load(operand, [index(0) for _ in operand.type.shape])
        for step in steps:
            if step.name == "linalg.index":
                known[step.results[0]] = zeros[0]
                continue
            copy = step.clone()
            for number, operand in enumerate(step.operands):
                copy.operands[number] = known.get(operand, operand)
            known |= dict(zip(step.results, copy.results, strict=True))
        source, *indices = load.operands
        first, columns = [known.get(value, value) for value in indices], target.type.shape[-1:]
        memref.copy(row(source, first, columns), row(target, zeros, columns))
    op.erase()


def reads_row(op: ir.Operation) -> bool:
    """Tell whether an op gives one row, whose elements are those from an index on: only their last index is theirs."""
    if op.name != "linalg.generic" or len(op.results):
        return False
    block, (*maps, written), target = op.regions[0].blocks[0], indexing_maps(op), op.operands[len(op.operands) - 1]
    *steps, end = [each.operation for each in block.operations]
    if not steps or steps[-1].name != "memref.load" or list(end.operands) != list(steps[-1].results):
        return False
    load, last = steps.pop(), written.n_dims - 1
    source, *_, column = load.operands
    counts = [
        step.results[0] for step in steps if step.name == "linalg.index" and loop_of_index(step.results[0]) == last
    ]
    of_column = [use for count in counts for use in count.uses]
    return (
        dimensions(written) == list(range(written.n_dims))
        and set(target.type.shape[:-1]) <= {1}
        and not any(last in dims or None in dims for dims in map(dimensions, maps))
        and not any(len(step.regions) for step in steps)
        and not list(block.arguments[len(maps)].uses)
        and column in counts
        and all(use.owner.operation == load and use.operand_number == len(load.operands) - 1 for use in of_column)
        and all(map(has_rows, (source, target)))
    )


def has_rows(array: ir.Value) -> bool:
    """Tell whether elements along the last dimension of an array lie side by side."""
    layout = layout_of(array.type)
    return layout is not None and bool(layout[0]) and layout[0][-1] == 1


def bytes_of_row(elements: int, kind: ir.MemRefType) -> int:
    """Bytes that so many elements of an array take; 0 of elements that are no whole bytes."""
    element = kind.element_type
    width = element.width if isinstance(element, ir.FloatType | ir.IntegerType) else 0
    return 0 if width % BITS_OF_BYTE else elements * width // BITS_OF_BYTE


def rows_apart(kind: ir.MemRefType) -> int:
    """How many dimensions an array has before those that lie as one row."""
    layout, dim, step = layout_of(kind), len(kind.shape), 1
    while layout is not None and dim and layout[0][dim - 1] == step:
        dim -= 1
        step *= kind.shape[dim]
    return dim


def write_rows(arrays: Sequence[ir.Value], shape: Sequence[int], indices: list[ir.Value], lead: int) -> None:
    """Write loops over the first dimensions of arrays that are not gone over yet, and in them a copy of a row."""
    if len(indices) < lead:
        loop = scf.ForOp(index(0), index(shape[len(indices)]), index(1))
        keep_rolled(loop.operation)
        with ir.InsertionPoint(loop.body):
            write_rows(arrays, shape, [*indices, loop.induction_variable], lead)
            scf.yield_([])
        return
    first = [index(0) for _ in shape[lead:]]
    write_row(*(row(each, [*indices, *first], shape[lead:]) for each in arrays))


def write_row(source: ir.Value, target: ir.Value) -> None:
    """Write a copy of one row, by vectors unless `memcpy` is faster."""
    kind, shape = source.type.element_type, source.type.shape
    size = bytes_of_row(prod(shape), source.type)
    if size in INLINE_BYTES or size >= LEAST_BYTES:
        memref.copy(source, target)
        return
    total, lanes = prod(shape), prod(shape) * VECTOR_BYTES // size
    whole, step = total // lanes * lanes, ir.VectorType.get([lanes], kind)
    lines = [flat(each) for each in (source, target)]
    loop = scf.ForOp(index(0), index(whole), index(lanes))
    with ir.InsertionPoint(loop.body):
        vector.store(vector.load(step, lines[0], [loop.induction_variable]), lines[1], [loop.induction_variable])
        scf.yield_([])
    if whole < total:
        memref.copy(*(row(each, [index(whole)], [total - whole]) for each in lines))


def flat(array: ir.Value) -> ir.Value:
    """An array that lies as one row, as one of one dimension."""
    if len(array.type.shape) == 1:
        return array
    kind = ir.MemRefType.get([prod(array.type.shape)], array.type.element_type, ir.StridedLayoutAttr.get(DYNAMIC, [1]))
    return memref.collapse_shape(kind, array, [list(range(len(array.type.shape)))])


def row(array: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """A part of an array that lies as one row, from an element on; of the array's last dimensions."""
    steps = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    kind = ir.MemRefType.get(sizes, array.type.element_type, ir.StridedLayoutAttr.get(DYNAMIC, steps))
    rank = len(offsets)
    whole = [*[1] * (rank - len(sizes)), *sizes]
    return memref.SubViewOp(kind, array, offsets, [], [], [DYNAMIC] * rank, whole, [1] * rank).result
