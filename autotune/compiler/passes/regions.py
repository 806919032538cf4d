"""Merge consecutive OpenMP parallel regions, so that threads wait at barriers between loops.

To fork and join threads takes several times as long as a barrier. Ops between two parallel loops that write memory are
executed by one thread (``omp.single``); pure ops are moved before the region. A sequential loop that contains only a
region is moved into the region, and executed by every thread.
"""

from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import openmp

from autotune.compiler.ir.module import ancestor_in, every_op

PARALLEL, SHARED, NOWAIT = "omp.parallel", "omp.wsloop", "nowait"
LOOP = "scf.for"
# Ops that are pure unless they have memref operands; and view-like ops, which are pure with memref operands.
COMPUTING = ("affine.", "arith.", "builtin.unrealized_conversion_cast", "index.", "llvm.mlir.", "math.", "vector.")
VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.extract_aligned_pointer_as_index",
    "memref.extract_strided_metadata",
    "memref.get_global",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.view",
)


def share_regions(module: ir.Module) -> None:
    """Merge neighbouring parallel regions, in place, and drop the redundant barrier at the end of each."""
    blocks: list[ir.Block] = []
    for op in every_op(module):
        if op.name == PARALLEL and op.block not in blocks:
            blocks.append(op.block)
    while blocks:
        block = max(blocks, key=depth)
        blocks.remove(block)
        outer = share_in_loop(block) if is_plain_loop(block.owner) else None
        if outer is None:
            for region in share(block):
                wait_once(region)
        elif outer not in blocks:
            blocks.append(outer)


def share(block: ir.Block) -> list[ir.Operation]:
    """Merge the regions of a block as far as possible; return those that are left."""
    regions: list[ir.Operation] = []
    between: list[ir.Operation] = []
    for op in ops_of(block):
        if op.name != PARALLEL:
            between.append(op)
            continue
        if not regions or not append(regions[-1], between, op):
            regions.append(op)
        between = []
    return regions


def share_in_loop(block: ir.Block) -> ir.Block | None:
    """Hoist a region around the loop that contains it; return the block of the new region, or `None` if impossible."""
    loop, inside = block.owner.operation, ops_of(block)
    region_in_loop = next(op for op in inside if op.name == PARALLEL)
    placeholders = [new_region(region_in_loop, inside[0]), new_region(region_in_loop, inside[-1])]
    # Empty regions at both ends let `share` absorb all ops of the body, if everything can be one region.
    regions = share(block)
    if len(regions) > 1 or not all(is_pure(op) for op in ops_of(block)[:-1] if op != placeholders[0]):
        for end in placeholders:
            if end in regions and len(ops_of(end.regions[0].blocks[0])) == 1:
                end.erase()
        return None
    region = new_region(region_in_loop, loop)
    for op in ops_of(regions[0].regions[0].blocks[0])[:-1]:
        op.move_before(inside[-1])
    regions[0].erase()
    loop.move_before(ops_of(region.regions[0].blocks[0])[-1])
    return region.block


def append(first: ir.Operation, between: Sequence[ir.Operation], second: ir.Operation) -> bool:
    """Extend a region by the ops between it and another one, and by that one; return whether this is possible."""
    # Ops with side effects, and ops that depend on them, must run on one thread; all other ops can be moved before.
    serial = {op for op in between if not is_pure(op)}
    while later_users := users(serial) - serial:
        if not later_users <= set(between):
            return False  # a later op uses a result that a single thread computes
        serial |= later_users
    if any(holds_region(op) for op in serial):
        return False
    for op in between:
        if op not in serial:
            op.move_before(first)
    terminator_of_first = ops_of(first.regions[0].blocks[0])[-1]
    if serial:
        single = openmp.SingleOp([], [], [], [], ip=ir.InsertionPoint(terminator_of_first), loc=second.location)
        inside = ir.InsertionPoint(single.regions[0].blocks.append())
        terminator = openmp.TerminatorOp(ip=inside, loc=second.location)
        for op in between:
            if op in serial:
                op.move_before(terminator)
    for op in ops_of(second.regions[0].blocks[0])[:-1]:
        op.move_before(terminator_of_first)
    second.erase()
    return True


def wait_once(region: ir.Operation) -> None:
    """Mark the last loop of a region `nowait`, as the end of the region is a barrier."""
    inside = ops_of(region.regions[0].blocks[0])
    if len(inside) > 1 and inside[-2].name == SHARED:
        inside[-2].attributes[NOWAIT] = ir.UnitAttr.get()


def new_region(like: ir.Operation, before: ir.Operation) -> ir.Operation:
    """Create an empty region with the same number of threads as another one."""
    point = ir.InsertionPoint(before)
    counts = [operand.owner.clone(point).results[0] for operand in like.operands]
    sizes = {"operandSegmentSizes": like.attributes["operandSegmentSizes"]}
    region = ir.Operation.create(PARALLEL, [], counts, sizes, regions=1, ip=point, loc=like.location)
    openmp.TerminatorOp(ip=ir.InsertionPoint(region.regions[0].blocks.append()), loc=like.location)
    return region


def depth(block: ir.Block) -> int:
    """Return the nesting depth of a block."""
    owner = block.owner.operation
    return 0 if owner.parent is None else 1 + depth(owner.block)


def ops_of(block: ir.Block) -> list[ir.Operation]:
    """Return the operations of a block, including its terminator."""
    return [op.operation for op in block.operations]


def users(ops: Iterable[ir.Operation]) -> set[ir.Operation]:
    """Return the users of results of ops, as their ancestors in the blocks of those ops."""
    return {ancestor_in(op.block, use.owner.operation) for op in ops for result in op.results for use in result.uses}


def is_pure(op: ir.Operation) -> bool:
    """Return whether an op has no side effects."""
    if op.name in VIEWS:
        return True
    takes_memory = any(isinstance(operand.type, ir.MemRefType) for operand in op.operands)
    return op.name.startswith(COMPUTING) and not takes_memory and bool(op.results) and not op.regions


def is_plain_loop(op: ir.OpView) -> bool:
    """Return whether an op is an scf.for without loop-carried values."""
    return op.operation.name == LOOP and not op.results


def holds_region(op: ir.Operation) -> bool:
    """Return whether an op is, or contains, a parallel region."""
    return any(each.name == PARALLEL for each in every_op(op))
