"""Fuse neighbouring element-wise operations before partitioning, and give every operation its own destination."""

from math import prod

from mlir import ir
from mlir.dialects import bufferization, tensor

from autotune.compiler.ir.extents import bound_empties
from autotune.compiler.ir.module import find_function, run_passes, symbol
from autotune.compiler.ir.nests import dimensions, indexing_maps, structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.gathers import cut_at_constants, read_indices_in_body
from autotune.compiler.tasks.read_op import read_op

FUSE_ELEMENTWISE = "builtin.module(canonicalize,func.func(linalg-fuse-elementwise-ops),canonicalize)"
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
SECOND_USE = "autotune.second_use"
COSTLY = ("math.", "arith.divf")
WIDENS = ("arith.extsi", "arith.extui", "arith.extf", "arith.sitofp", "arith.uitofp")
MOST_WIDENING = 3  # scalar operations that may be recomputed for each consumer: a cast, a zero point, a scale
SHIFTS = ("arith.addf", "arith.subf", "arith.mulf")
LONG_ROW = 8192  # elements
COUNTS = ["linalg.index", "arith.index_cast", "linalg.yield"]  # body of an operation that computes 0, 1, 2, ...
MADE = ("linalg.fill", "tensor.empty")


def fuse_elementwise(module: ir.Module, function: ir.OpView) -> None:
    """Fuse neighbouring element-wise operations, in place, except into contractions, windows, reshapes and broadcasts.

    The upstream pass would also fold reshapes into operations: a matmul would become a higher-dimensional operation
    that no matmul schedule supports, and its epilogue would change shape. The pass only fuses values with a single use,
    so values that must not be fused temporarily get a second one.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        read_indices_in_body(op.operation)
        protected = [*op.operation.operands, *op.operation.results] if has_fixed_operands(op.operation) else []
        protected += op.operation.operands if writes_inside(op.operation) else []
        protected += [v for v in op.operation.operands if is_reduced_flat(op.operation, v) or is_apart(v)]
        protected += [
            v for v in op.operation.results if is_repeated(v) or any(use.owner.name in RESHAPES for use in v.uses)
        ]
        with ir.InsertionPoint.after(op.operation), op.operation.location:
            for value in dict.fromkeys(protected):
                if isinstance(value.type, ir.RankedTensorType):
                    bufferization.DeallocTensorOp(value).operation.attributes[SECOND_USE] = ir.UnitAttr.get()
    run_passes(module, FUSE_ELEMENTWISE)
    if compute_for_each_reader(find_function(module, str(symbol(function)))):
        run_passes(module, FUSE_ELEMENTWISE)

    def erase(op: ir.Operation) -> ir.WalkResult:
        if SECOND_USE in op.attributes:
            op.erase()
        return ir.WalkResult.ADVANCE

    module.operation.walk(erase)
    run_passes(module, "builtin.module(canonicalize)")
    name = str(symbol(function))
    write_to_results(module, name)
    fused = find_function(module, name)
    for op, _ in list(structured_ops(fused.regions[0].blocks[0])):
        cut_at_constants(op.operation)
    bound_empties(fused)


def write_to_results(module: ir.Module, name: str) -> None:
    """Let the operations of a function write its results to their buffers, not to empty tensors, in place."""
    # the pass replaces an empty tensor by the buffer of a result; one shared by two operations, for both of them
    own_destinations(find_function(module, name))
    run_passes(module, "builtin.module(eliminate-empty-tensors)")
    module.operation.walk(skip_settled_copy)
    own_destinations(find_function(module, name))


def compute_for_each_reader(function: ir.OpView) -> bool:
    """Rematerialize widening casts, and shifts of long rows, for every consumer, in place; return whether any was.

        w = f32(x);  s = sum(w);  y = w - s       ->   s = sum(f32(x));  y = f32(x) - s
        d = x - m;   v = sum(d d);  y = d / v     ->   v = sum((x - m) (x - m));  y = (x - m) / v

    The source is narrower than the intermediate would be, or comes from the same level of the memory hierarchy.
    """
    ops = [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]
    producers = [op for op in ops if widens_alone(op) or shifts_long_rows(op)]
    changed = False
    for op in producers:
        uses = [use for use in op.results[0].uses if use.owner.operation.name.startswith("linalg.")]
        for use in [use for use in uses if not has_fixed_operands(use.owner.operation)][1:]:
            reader = use.owner.operation
            with ir.InsertionPoint(reader):
                reader.operands[use.operand_number] = op.clone().operation.results[0]
            changed = True
    return changed


def widens_alone(op: ir.Operation) -> bool:
    """Return whether an operation widens each element of one tensor by at most a few cheap scalar operations."""
    maps = indexing_maps(op)
    if op.name != "linalg.generic" or len(op.results) != 1 or not maps:
        return False
    wide = [value for value, amap in zip(op.operands, maps[:-1], strict=False) if amap.results]
    if len(wide) != 1 or maps[list(op.operands).index(wide[0])] != maps[-1] or not maps[-1].is_permutation:
        return False
    element_types = [value.type.element_type for value in (wide[0], op.results[0])]
    *body, _ = (inner.operation for inner in op.regions[0].blocks[0].operations)
    names = [step.name for step in body if step.name != "arith.constant"]
    cheap = len(names) <= MOST_WIDENING and not any(name.startswith(COSTLY) for name in names)
    return cheap and any(name in WIDENS for name in names) and bits_of(element_types[0]) < bits_of(element_types[1])


def shifts_long_rows(op: ir.Operation) -> bool:
    """Return whether an operation combines each element of long rows with a value of the row, by one scalar operation.

    Shorter rows stay in the L1 cache together with what is computed from them, and their producer may be fused with
    its first consumer.
    """
    maps = indexing_maps(op)
    if op.name != "linalg.generic" or len(op.results) != 1 or len(maps) < 2:
        return False
    shape, block = op.results[0].type.shape, op.regions[0].blocks[0]
    row_operands = [number for number, amap in enumerate(maps[:-1]) if amap == maps[-1]]
    lead = max((d for amap in maps[:-1] if amap != maps[-1] for d in dimensions(amap) if d is not None), default=-1)
    if (
        len(row_operands) != 1
        or maps[-1] != ir.AffineMap.get_identity(len(shape))
        or prod(shape[lead + 1 :]) < LONG_ROW
    ):
        return False
    moved_values, op_names = {block.arguments[row_operands[0]]}, list[str]()
    for step in (inner.operation for inner in block.operations):
        if step.name != "linalg.yield" and any(value in moved_values for value in step.operands):
            moved_values.update(step.results)
            op_names.append(step.name)
    return len(op_names) == 1 and op_names[0] in SHIFTS


def bits_of(mlir_type: ir.Type) -> int:
    """Return the width of an integer or float type in bits; 0 for any other type."""
    return int(mlir_type.width) if isinstance(mlir_type, ir.IntegerType | ir.FloatType) else 0


def has_fixed_operands(op: ir.Operation) -> bool:
    """Return whether an operation is a contraction or sliding window, whose operands must not change."""
    read = read_op(op)
    return read is not None and (read.multiplies or read.lanes is not None)


def writes_inside(op: ir.Operation) -> bool:
    """Return whether the destination of an operation is a slice, whose shape must be kept."""
    into = maker(op.operands[-1])
    return into is not None and into.name == "tensor.extract_slice"


def is_reduced_flat(op: ir.Operation, value: ir.Value) -> bool:
    """Return whether an operation reduces a collapsed tensor, perhaps after widening, which must stay collapsed.

    Tensors that a structured operation computes do not count.
    """
    flat = maker(value)
    if flat is None or flat.name != "tensor.collapse_shape" or value != op.operands[0]:
        return False
    source = maker(flat.operands[0])
    if source is not None and source.name.startswith("linalg."):
        return False
    return reduces(op) or (widens_alone(op) and any(reduces(use.owner.operation) for use in op.results[0].uses))


def is_apart(value: ir.Value) -> bool:
    """Return whether folding a `tensor.collapse_shape` into its consumer would shorten rows without any benefit.

    This holds if only unit dimensions are dropped, as for a bias of shape channels x 1 x 1, since vectors would lie
    along the last of them; and after a transpose, which is not fused, as in transposed convolutions.
    """
    producer = maker(value)
    if producer is None or producer.name != "tensor.collapse_shape":
        return False
    source = maker(producer.operands[0])
    sizes = [[size for size in kind.shape if size != 1] for kind in (producer.operands[0].type, value.type)]
    return sizes[0] == sizes[1] or (source is not None and source.name == "linalg.transpose")


def reduces(op: ir.Operation) -> bool:
    """Return whether an operation is a reduction: its output map has fewer results than loops."""
    maps = indexing_maps(op) if op.name.startswith("linalg.") else []
    return bool(maps) and len(maps[-1].results) < maps[-1].n_dims


def is_repeated(value: ir.Value) -> bool:
    """Return whether fusion would recompute a costly value in every iteration of the outermost loop of a consumer.

    An example is the factor of a channel in a batch norm; it stays a separate operation. So do index sequences: if
    upstream splits a reduction, each part would count from 0.
    """
    producer = maker(value)
    if producer is None or not producer.regions or len(producer.results) != 1:
        return False
    body = [inner.operation.name for inner in producer.regions[0].blocks[0].operations]
    return (body == COUNTS or any(name.startswith(COSTLY) for name in body)) and any(
        repeats(use.owner.operation, use.operand_number) for use in value.uses
    )


def repeats(reader: ir.Operation, number: int) -> bool:
    """Return whether an operation of several loops reads the same elements of an operand in every outer iteration."""
    maps = indexing_maps(reader) if reader.name.startswith("linalg.") else []
    return number < len(maps) and maps[number].n_dims > 1 and 0 not in dimensions(maps[number])


def own_destinations(function: ir.OpView) -> None:
    """Give every structured operation its own destination, in place.

        z = fill 0;  s = sum(x) into z;  t = sum(y) into z   ->   z = fill 0;  s = sum(x) into z;  w = fill 0;  t = ...

    A schedule fuses the fill of a destination into the loops of its operation; a shared one would be consumed with the
    first user.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        for number in range(len(op.operands) - len(op.results), len(op.operands)):
            make_own(op.operation, number)


def make_own(reader: ir.Operation, number: int) -> None:
    """Clone the fill or empty tensor of an operand if it has other users."""
    producer = maker(reader.operands[number])
    if producer is None or producer.name not in MADE:
        return
    if len(list(producer.results[0].uses)) > 1:
        with ir.InsertionPoint(reader):
            producer = producer.clone().operation
        reader.operands[number] = producer.results[0]
    if producer.name == "linalg.fill":
        make_own(producer, len(producer.operands) - 1)


def skip_settled_copy(op: ir.Operation) -> ir.WalkResult:
    """Remove a `materialize_in_destination` whose source is computed in that destination already.

    One-shot bufferization sees that both are one buffer for a single operation, but no longer for the loops after
    tiling. If the operation also reads the destination, the value is computed in a new tensor and copied instead.
    """
    if op.name == "bufferization.materialize_in_destination" and len(op.results) == 1:
        source, destination = op.operands
        producer = maker(source)
        if producer is None or not producer.name.startswith("linalg.") or producer.operands[-1] != destination:
            return ir.WalkResult.ADVANCE
        if reads_besides(producer, destination):
            with ir.InsertionPoint(producer), op.location:
                tensor_type = destination.type
                producer.operands[len(producer.operands) - 1] = tensor.empty(
                    tensor_type.shape, tensor_type.element_type
                )
            return ir.WalkResult.ADVANCE
        op.results[0].replace_all_uses_with(source)
        op.erase()
    return ir.WalkResult.ADVANCE


def reads_besides(op: ir.Operation, value: ir.Value) -> bool:
    """Return whether an operation reads its destination as another operand, and not as accumulator."""
    return value in list(op.operands)[:-1] and not list(op.regions[0].blocks[0].arguments[-1].uses)
