"""Element-wise neighbours become one op before tasks are looked for; what is written to is made for each op alone."""

from math import prod

from mlir import ir
from mlir.dialects import bufferization, tensor

from autotune.compiler.ir.extents import bound_empties
from autotune.compiler.ir.module import find_function, run_passes, symbol
from autotune.compiler.ir.nests import dimensions, indexing_maps, structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.gathers import cut_at_constants, read_indices_in_body
from autotune.compiler.tasks.read_op import read_op

# Element-wise neighbours become one op before units are counted.
FUSE_ELEMENTWISE = "builtin.module(canonicalize,func.func(linalg-fuse-elementwise-ops),canonicalize)"
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
SECOND_USE = "autotune.second_use"
COSTLY = ("math.", "arith.divf")
WIDENS = ("arith.extsi", "arith.extui", "arith.extf", "arith.sitofp", "arith.uitofp")
MOST_WIDENING = 3  # operations of an element that are done again for each reader: a cast, a zero point, a scale
SHIFTS = ("arith.addf", "arith.subf", "arith.mulf")
LONG_ROW = 8192  # elements
COUNTS = ["linalg.index", "arith.index_cast", "linalg.yield"]  # the body of an op that gives 0, 1, 2, ...
MADE = ("linalg.fill", "tensor.empty")


def fuse_elementwise(module: ir.Module, function: ir.OpView) -> None:
    """Fuse element-wise neighbours, in place, leaving contractions, windows, what is reshaped, and what is repeated.

    The fusion pass would also fold reshapes into ops: a matmul becomes a higher-dimensional op that no matmul schedule
    knows, and what is added to a matmul no longer has its shape. It only touches values with a single use: those of
    contractions, and those that are reshaped, get a second one meanwhile.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        read_indices_in_body(op.operation)
        kept = [*op.operation.operands, *op.operation.results] if is_kept(op.operation) else []
        kept += op.operation.operands if writes_inside(op.operation) else []
        kept += [v for v in op.operation.operands if is_reduced_flat(op.operation, v) or is_apart(v)]
        kept += [v for v in op.operation.results if is_repeated(v) or any(use.owner.name in RESHAPES for use in v.uses)]
        with ir.InsertionPoint.after(op.operation), op.operation.location:
            for value in dict.fromkeys(kept):
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
    # a result's buffer replaces an empty tensor: of one that two ops share, for both
    own_destinations(find_function(module, str(symbol(function))))
    run_passes(module, "builtin.module(eliminate-empty-tensors)")
    module.operation.walk(skip_settled_copy)
    own_destinations(find_function(module, str(symbol(function))))
    fused = find_function(module, str(symbol(function)))
    for op, _ in list(structured_ops(fused.regions[0].blocks[0])):
        cut_at_constants(op.operation)
    bound_empties(fused)


def compute_for_each_reader(function: ir.OpView) -> bool:
    """Let every reader widen narrow numbers, and shift long rows, for itself, in place; tells whether there are such.

        w = f32(x);  s = sum(w);  y = w - s       ->   s = sum(f32(x));  y = f32(x) - s
        d = x - m;   v = sum(d d);  y = d / v     ->   v = sum((x - m) (x - m));  y = (x - m) / v

    What is read again is narrower than what would be written for all, or is read from where that would be, too.
    """
    ops = [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]
    found = [op for op in ops if widens_alone(op) or shifts_long_rows(op)]
    changed = False
    for op in found:
        uses = [use for use in op.results[0].uses if use.owner.operation.name.startswith("linalg.")]
        for use in [use for use in uses if not is_kept(use.owner.operation)][1:]:
            reader = use.owner.operation
            with ir.InsertionPoint(reader):
                reader.operands[use.operand_number] = op.clone().operation.results[0]
            changed = True
    return changed


def widens_alone(op: ir.Operation) -> bool:
    """Tell whether an op gives each element of one tensor in a wider type, by a few operations at most."""
    maps = indexing_maps(op)
    if op.name != "linalg.generic" or len(op.results) != 1 or not maps:
        return False
    wide = [value for value, amap in zip(op.operands, maps[:-1], strict=False) if amap.results]
    if len(wide) != 1 or maps[list(op.operands).index(wide[0])] != maps[-1] or not maps[-1].is_permutation:
        return False
    kinds = [value.type.element_type for value in (wide[0], op.results[0])]
    *body, _ = (inner.operation for inner in op.regions[0].blocks[0].operations)
    names = [step.name for step in body if step.name != "arith.constant"]
    cheap = len(names) <= MOST_WIDENING and not any(name.startswith(COSTLY) for name in names)
    return cheap and any(name in WIDENS for name in names) and bits_of(kinds[0]) < bits_of(kinds[1])


def shifts_long_rows(op: ir.Operation) -> bool:
    """Tell whether an op gives the elements of long rows by one operation each, with numbers that are the row's.

    Rows of fewer elements stay in the innermost cache with what is computed of them, and what computes them may be
    fused with the first that reads them.
    """
    maps = indexing_maps(op)
    if op.name != "linalg.generic" or len(op.results) != 1 or len(maps) < 2:
        return False
    shape, block = op.results[0].type.shape, op.regions[0].blocks[0]
    whole = [number for number, amap in enumerate(maps[:-1]) if amap == maps[-1]]
    lead = max((d for amap in maps[:-1] if amap != maps[-1] for d in dimensions(amap) if d is not None), default=-1)
    if len(whole) != 1 or maps[-1] != ir.AffineMap.get_identity(len(shape)) or prod(shape[lead + 1 :]) < LONG_ROW:
        return False
    moving, steps = {block.arguments[whole[0]]}, list[str]()
    for step in (inner.operation for inner in block.operations):
        if step.name != "linalg.yield" and any(value in moving for value in step.operands):
            moving.update(step.results)
            steps.append(step.name)
    return len(steps) == 1 and steps[0] in SHIFTS


def bits_of(kind: ir.Type) -> int:
    """Bits of a number; none of an index."""
    return int(kind.width) if isinstance(kind, ir.IntegerType | ir.FloatType) else 0


def is_kept(op: ir.Operation) -> bool:
    """Tell whether an op is a contraction, or reads windows: it keeps the operands that it has."""
    read = read_op(op)
    return read is not None and (read.multiplies or read.lanes is not None)


def writes_inside(op: ir.Operation) -> bool:
    """Tell whether an op writes to a part of a tensor, whose shape it keeps."""
    into = maker(op.operands[-1])
    return into is not None and into.name == "tensor.extract_slice"


def is_reduced_flat(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether dimensions that were made one of what no other op computes are reduced, perhaps widened before.

    They are to stay one.
    """
    flat = maker(value)
    if flat is None or flat.name != "tensor.collapse_shape" or value != op.operands[0]:
        return False
    source = maker(flat.operands[0])
    if source is not None and source.name.startswith("linalg."):
        return False
    return reduces(op) or (widens_alone(op) and any(reduces(use.owner.operation) for use in op.results[0].uses))


def is_apart(value: ir.Value) -> bool:
    """Tell whether upstream would give an element-wise op shorter rows for a reshape, and spare nothing by it.

    So it is without dimensions of size 1, as a bias that comes as channels x 1 x 1: a vector would go along the last of
    those. And behind a transpose, which stays an op of its own, as the phases of a transposed convolution are spread.
    """
    made_by = maker(value)
    if made_by is None or made_by.name != "tensor.collapse_shape":
        return False
    source = maker(made_by.operands[0])
    sizes = [[size for size in kind.shape if size != 1] for kind in (made_by.operands[0].type, value.type)]
    return sizes[0] == sizes[1] or (source is not None and source.name == "linalg.transpose")


def reduces(op: ir.Operation) -> bool:
    """Tell whether an op writes to fewer dimensions than it has loops."""
    maps = indexing_maps(op) if op.name.startswith("linalg.") else []
    return bool(maps) and len(maps[-1].results) < maps[-1].n_dims


def is_repeated(value: ir.Value) -> bool:
    """Tell whether what is costly to compute would be computed again at every step of a reader's outermost loop.

    Such is the factor of a channel in a batch norm, at every element; it stays an op of its own. So do indices that are
    counted: upstream cuts a reduction into strands, which then count from 0 each.
    """
    made_by = maker(value)
    if made_by is None or not made_by.regions or len(made_by.results) != 1:
        return False
    body = [inner.operation.name for inner in made_by.regions[0].blocks[0].operations]
    return (body == COUNTS or any(name.startswith(COSTLY) for name in body)) and any(
        repeats(use.owner.operation, use.operand_number) for use in value.uses
    )


def repeats(reader: ir.Operation, number: int) -> bool:
    """Tell whether an op of several loops reads the same elements of an operand at every step of the first."""
    maps = indexing_maps(reader) if reader.name.startswith("linalg.") else []
    return number < len(maps) and maps[number].n_dims > 1 and 0 not in dimensions(maps[number])


def own_destinations(function: ir.OpView) -> None:
    """Give every structured op a destination that no other op has, in place.

        z = fill 0;  s = sum(x) into z;  t = sum(y) into z   ->   z = fill 0;  s = sum(x) into z;  w = fill 0;  t = ...

    A schedule fuses the fill of an op's destination into its loops: one that others read too would be consumed with the
    first of them.
    """
    for op, _ in list(structured_ops(function.regions[0].blocks[0])):
        for number in range(len(op.operands) - len(op.results), len(op.operands)):
            make_own(op.operation, number)


def make_own(reader: ir.Operation, number: int) -> None:
    """Let an operand that is a fill, or an empty tensor, be one that nothing else reads."""
    made_by = maker(reader.operands[number])
    if made_by is None or made_by.name not in MADE:
        return
    if len(list(made_by.results[0].uses)) > 1:
        with ir.InsertionPoint(reader):
            made_by = made_by.clone().operation
        reader.operands[number] = made_by.results[0]
    if made_by.name == "linalg.fill":
        make_own(made_by, len(made_by.operands) - 1)


def skip_settled_copy(op: ir.Operation) -> ir.WalkResult:
    """Let a value that is already computed in its destination stand for the copy of it there.

    One-shot bufferization sees that the two are one buffer for a single op, but no longer for the loops that
    tiling makes of it. Where the op also reads its destination, it sees neither: then the value is computed elsewhere,
    and copied.
    """
    if op.name == "bufferization.materialize_in_destination" and len(op.results) == 1:
        source, destination = op.operands
        made_by = maker(source)
        if made_by is None or not made_by.name.startswith("linalg.") or made_by.operands[-1] != destination:
            return ir.WalkResult.ADVANCE
        if reads_besides(made_by, destination):
            with ir.InsertionPoint(made_by), op.location:
                kind = destination.type
                made_by.operands[len(made_by.operands) - 1] = tensor.empty(kind.shape, kind.element_type)
            return ir.WalkResult.ADVANCE
        op.results[0].replace_all_uses_with(source)
        op.erase()
    return ir.WalkResult.ADVANCE


def reads_besides(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether an op that writes to a value reads it as another operand, and only there."""
    return value in list(op.operands)[:-1] and not list(op.regions[0].blocks[0].arguments[-1].uses)
