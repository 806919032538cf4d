"""Lower copies of rows to ``memcpy``: long rows, rows of few vectors, and those that a schedule has marked.

    for i in 0 to 4096 step 16: y[r, i : i + 16] = x[s, i : i + 16]   ->   memcpy(&y[r, 0], &x[s, 0], 16384)

The C library's memcpy is tuned for the processor: for rows beyond the near caches, it writes lines without reading them
first, which vector loops cannot. LLVM inlines a memcpy of a few vectors. Rows of lengths in between are copied by
vector loops: LLVM would unroll scalar loops row by row, and take seconds for each copy of a model.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import memref, scf, vector

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import constant, index, is_constant, loop_of_index
from autotune.compiler.ir.views import DYNAMIC, layout_of
from autotune.compiler.passes.loads import ancestors_of
from autotune.compiler.passes.marked_loops import counter
from autotune.compiler.passes.rolled_loops import keep_rolled
from autotune.compiler.passes.zeros import BOUNDS
from autotune.core.scripts.marks import ROW_COPY

LEAST_BYTES = 4096  # of a row: for a shorter one, a loop is faster than a call with its dispatch
INLINE_BYTES = range(64, 257)  # of a row for which LLVM inlines memcpy to a few instructions
VECTOR_BYTES = 64  # per iteration of copy loops
BITS_OF_BYTE = 8
BODY = ["vector.load", "vector.store", "scf.yield"]


def copy_blocks(module: ir.Module) -> None:
    """Lower copies of rows in a bufferized module, in place."""
    ops = every_op(module)
    rows, loops = [op for op in ops if ROW_COPY in op.attributes], [op for op in ops if is_copy_of_row(op)]
    copies = [op for op in ops if op.name == "linalg.copy"]
    for op in rows:  # erases nested ops, which are invalid afterwards
        copy_read_row(op)
    for copy in copies:
        copy_rows(copy)
    for loop in loops:
        copy_row(loop)


def is_copy_of_row(op: ir.Operation) -> bool:
    """Return whether an op is a loop whose body only loads and stores a vector."""
    return op.name == "scf.for" and [each.operation.name for each in op.regions[0].blocks[0].operations] == BODY


def copy_rows(copy: ir.Operation) -> None:
    """Lower a linalg.copy whose last dimensions are contiguous in both arrays, if they span at least a vector."""
    source, target = copy.operands
    shape = list(source.type.shape)
    lead = max(rows_apart(source.type), rows_apart(target.type))
    if DYNAMIC in shape or bytes_of_row(prod(shape[lead:]), source.type) < VECTOR_BYTES:
        return
    with ir.InsertionPoint(copy), copy.location:
        write_rows((source, target), shape, [], lead)
    copy.erase()


def copy_row(loop: ir.Operation) -> None:
    """Lower a loop that copies one long row by vectors."""
    load, store = (each.operation for each in list(loop.regions[0].blocks[0].operations)[:2])
    source, target = load.operands[0], store.operands[1]
    bounds = list(loop.operands)[:BOUNDS]
    if store.operands[0] != load.results[0] or not all(map(is_constant, bounds)):
        return
    first, last, step = map(constant, bounds)
    accesses = [list(load.operands)[1:], list(store.operands)[2:]]
    outside = [value for indices in accesses for value in indices[:-1]]
    if (
        (last - first) % step
        or step != prod(load.results[0].type.shape)
        or any(loop in ancestors_of(v) for v in outside)
    ):
        return
    if (
        any(indices[-1] != counter(loop) for indices in accesses)
        or bytes_of_row(last - first, source.type) < LEAST_BYTES
    ):
        return
    with ir.InsertionPoint(loop), loop.location:
        rows = (
            row(each, [*indices[:-1], bounds[0]], [last - first])
            for each, indices in zip((source, target), accesses, strict=True)
        )
        memref.copy(*rows)
    loop.erase()


def copy_read_row(op: ir.Operation) -> None:
    """Lower an op that copies one contiguous row, starting at an index that its body computes.

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
    """Return whether an op copies one row: only the last index of its load depends on the column."""
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
    """Return whether the last dimension of an array has stride 1."""
    layout = layout_of(array.type)
    return layout is not None and bool(layout[0]) and layout[0][-1] == 1


def bytes_of_row(elements: int, memref_type: ir.MemRefType) -> int:
    """Return the size in bytes of `elements` elements; 0 if elements are not whole bytes."""
    element = memref_type.element_type
    width = element.width if isinstance(element, ir.FloatType | ir.IntegerType) else 0
    return 0 if width % BITS_OF_BYTE else elements * width // BITS_OF_BYTE


def rows_apart(memref_type: ir.MemRefType) -> int:
    """Return the number of leading dimensions before those that are contiguous."""
    layout, dim, step = layout_of(memref_type), len(memref_type.shape), 1
    while layout is not None and dim and layout[0][dim - 1] == step:
        dim -= 1
        step *= memref_type.shape[dim]
    return dim


def write_rows(arrays: Sequence[ir.Value], shape: Sequence[int], indices: list[ir.Value], lead: int) -> None:
    """Build loops over the leading dimensions that have no index yet, around the copy of a row."""
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
    """Build the copy of one row, by a vector loop unless `memcpy` is faster."""
    element_type, shape = source.type.element_type, source.type.shape
    size = bytes_of_row(prod(shape), source.type)
    if size in INLINE_BYTES or size >= LEAST_BYTES:
        memref.copy(source, target)
        return
    total, lanes = prod(shape), prod(shape) * VECTOR_BYTES // size
    whole, vector_type = total // lanes * lanes, ir.VectorType.get([lanes], element_type)
    lines = [flat(each) for each in (source, target)]
    loop = scf.ForOp(index(0), index(whole), index(lanes))
    with ir.InsertionPoint(loop.body):
        vector.store(vector.load(vector_type, lines[0], [loop.induction_variable]), lines[1], [loop.induction_variable])
        scf.yield_([])
    if whole < total:
        memref.copy(*(row(each, [index(whole)], [total - whole]) for each in lines))


def flat(array: ir.Value) -> ir.Value:
    """Collapse a contiguous array to one dimension."""
    if len(array.type.shape) == 1:
        return array
    memref_type = ir.MemRefType.get(
        [prod(array.type.shape)], array.type.element_type, ir.StridedLayoutAttr.get(DYNAMIC, [1])
    )
    return memref.collapse_shape(memref_type, array, [list(range(len(array.type.shape)))])


def row(array: ir.Value, offsets: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
    """Build a contiguous subview of the last dimensions of an array, from an element on."""
    steps = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    row_type = ir.MemRefType.get(sizes, array.type.element_type, ir.StridedLayoutAttr.get(DYNAMIC, steps))
    rank = len(offsets)
    full_sizes = [*[1] * (rank - len(sizes)), *sizes]
    return memref.SubViewOp(row_type, array, offsets, [], [], [DYNAMIC] * rank, full_sizes, [1] * rank).result
