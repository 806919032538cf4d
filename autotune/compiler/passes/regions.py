"""Regions: parallel loops that follow each other share one OpenMP region, and its threads wait at barriers.

To wake threads for a region and to gather them afterwards takes several times as long as a barrier. What stands between
two parallel loops and writes memory is left to one thread, ``omp.single``; what only computes goes before the region.
A loop that holds nothing but a region goes into it: every thread counts for itself.
"""

from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import openmp

from autotune.compiler.ir.module import ancestor_in, every_op

PARALLEL, SHARED, NOWAIT = "omp.parallel", "omp.wsloop", "nowait"
LOOP = "scf.for"
# Ops that only compute, where they take no memory; and those that take it, and only say where something is.
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
    """Let neighbouring parallel loops share a region, in place; a loop that ends its region waits once, not twice."""
    blocks: list[ir.Block] = []
    for op in every_op(module):
        if op.name == PARALLEL and op.block not in blocks:
            blocks.append(op.block)
    while blocks:
        block = max(blocks, key=depth)
        blocks.remove(block)
        around = share_in_loop(block) if is_plain_loop(block.owner) else None
        if around is None:
            for region in share(block):
                wait_once(region)
        elif around not in blocks:
            blocks.append(around)


def share(block: ir.Block) -> list[ir.Operation]:
    """Merge the regions of a block as far as that can be done; gives those that are left."""
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
    """Let all that a loop does be one region around the loop; gives the block it is in, `None` where it cannot be."""
    loop, inside = block.owner.operation, ops_of(block)
    like = next(op for op in inside if op.name == PARALLEL)
    ends = [new_region(like, inside[0]), new_region(like, inside[-1])]
    regions = share(block)
    if len(regions) > 1 or not all(is_pure(op) for op in ops_of(block)[:-1] if op != ends[0]):
        for end in ends:
            if end in regions and len(ops_of(end.regions[0].blocks[0])) == 1:
                end.erase()
        return None
    region = new_region(like, loop)
    for op in ops_of(regions[0].regions[0].blocks[0])[:-1]:
        op.move_before(inside[-1])
    regions[0].erase()
    loop.move_before(ops_of(region.regions[0].blocks[0])[-1])
    return region.block


def append(first: ir.Operation, between: Sequence[ir.Operation], second: ir.Operation) -> bool:
    """Let a region go on with what stands between it and another, and with that one; tells whether this can be done."""
    alone = {op for op in between if not is_pure(op)}
    while more := users(alone) - alone:
        if not more <= set(between):
            return False  # somebody behind the regions needs what one thread computes
        alone |= more
    if any(holds_region(op) for op in alone):
        return False
    for op in between:
        if op not in alone:
            op.move_before(first)
    end = ops_of(first.regions[0].blocks[0])[-1]
    if alone:
        single = openmp.SingleOp([], [], [], [], ip=ir.InsertionPoint(end), loc=second.location)
        inside = ir.InsertionPoint(single.regions[0].blocks.append())
        terminator = openmp.TerminatorOp(ip=inside, loc=second.location)
        for op in between:
            if op in alone:
                op.move_before(terminator)
    for op in ops_of(second.regions[0].blocks[0])[:-1]:
        op.move_before(end)
    second.erase()
    return True


def wait_once(region: ir.Operation) -> None:
    """Leave out the barrier of a loop that ends a region, which is a barrier itself."""
    inside = ops_of(region.regions[0].blocks[0])
    if len(inside) > 1 and inside[-2].name == SHARED:
        inside[-2].attributes[NOWAIT] = ir.UnitAttr.get()


def new_region(like: ir.Operation, before: ir.Operation) -> ir.Operation:
    """A region of as many threads as another, in which nothing is done."""
    point = ir.InsertionPoint(before)
    counts = [operand.owner.clone(point).results[0] for operand in like.operands]
    sizes = {"operandSegmentSizes": like.attributes["operandSegmentSizes"]}
    region = ir.Operation.create(PARALLEL, [], counts, sizes, regions=1, ip=point, loc=like.location)
    openmp.TerminatorOp(ip=ir.InsertionPoint(region.regions[0].blocks.append()), loc=like.location)
    return region


def depth(block: ir.Block) -> int:
    """Number of blocks that a block is in."""
    owner = block.owner.operation
    return 0 if owner.parent is None else 1 + depth(owner.block)


def ops_of(block: ir.Block) -> list[ir.Operation]:
    """Ops of a block, its terminator the last."""
    return [op.operation for op in block.operations]


def users(ops: Iterable[ir.Operation]) -> set[ir.Operation]:
    """Those who use results of some ops, as far out as these are."""
    return {ancestor_in(op.block, use.owner.operation) for op in ops for result in op.results for use in result.uses}


def is_pure(op: ir.Operation) -> bool:
    """Tell whether an op only computes."""
    if op.name in VIEWS:
        return True
    takes_memory = any(isinstance(operand.type, ir.MemRefType) for operand in op.operands)
    return op.name.startswith(COMPUTING) and not takes_memory and bool(op.results) and not op.regions


def is_plain_loop(op: ir.OpView) -> bool:
    """Tell whether an op is a loop that carries nothing."""
    return op.operation.name == LOOP and not op.results


def holds_region(op: ir.Operation) -> bool:
    """Tell whether there is a region inside of an op."""
    return any(each.name == PARALLEL for each in every_op(op))
