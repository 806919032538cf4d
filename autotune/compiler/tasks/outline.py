"""Outline structured operations into a module of their own, with memref arguments and tensors inside."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, bufferization, func, tensor

from autotune.compiler.ir.extents import extent_of, first_part, static_shape
from autotune.compiler.ir.values import fill_of, index, is_constant, is_fresh, maker
from autotune.compiler.tasks.gathers import gathered
from autotune.compiler.tasks.read_op import read_op
from autotune.core.ops.traversal import is_stencil
from autotune.core.payload import DTYPES, Argument
from autotune.core.scripts.marks import TAG, WEIGHT_OF

# Operations that are undefined, or not finite, for some inputs.
PARTIAL = ("arith.divf", "math.rsqrt", "math.sqrt", "math.log", "math.log2", "math.log1p", "math.powf")
EXTENT = "extent"  # name of the argument that holds a dynamic size


def outline(ops: Sequence[ir.Operation], weights: Collection[ir.Value] = ()) -> tuple[str, tuple[Argument, ...]] | None:
    """Clone operations into function ``@outline`` of a new module, the last one tagged ``__tag__``.

    Inputs become arguments ``in0``, ``in1``, ...; results of the last operation ``out0``, ... . A destination that is
    filled with a constant is filled again, one that is never read becomes an empty tensor, any other becomes an input.

    Args:
        ops: Operations in program order; all but the last are used only by these.
        weights: Operands that are weights; their arguments have that role.

    Tensors with a dynamic size become arguments of its upper bound; the size itself becomes argument ``extent``. It
    must be the same everywhere.

    Tensors that a body extracts elements from become arguments too; random indices are drawn within bounds.

    Returns:
        Text of the module and its arguments; `None` if a body captures other values that are not constants, or an
        element type is not supported by payloads.
    """
    new_operands = {(op, i) for op in ops for i in range(len(op.operands)) if is_made(op, i)}
    values = outer_operands(ops)
    read = gathered(ops[-1])
    if read is None:
        return None
    values += read
    results = list(ops[-1].results)
    outside = [value for op in ops for value in captured(op)]
    everything = [*values, *(operand for op in ops for operand in op.operands), *results]
    foreign = any(not is_constant(value) and value not in read for value in outside)
    foreign |= not all(is_tensor(value) for value in values)  # a computed scalar, such as a zero point
    if foreign or not all(supported(value) for value in everything):
        return None
    extents = {extent for value in everything if (extent := extent_of(value)) is not None}
    if len(extents) > 1 or any(extent_of(value) is not None for value in results):
        return None
    positive = any(nested.name in PARTIAL for op in ops for nested in inner_ops(op))
    arguments = [
        argument(f"in{j}", "weight" if value in weights else "input", value, positive) for j, value in enumerate(values)
    ]
    bounded = ((a, read.get(value, 0)) for a, value in zip(arguments, values, strict=True))
    arguments = [replace(a, low=0, high=bound) if bound else a for a, bound in bounded]
    arguments += [Argument(EXTENT, "input", (1,), "i64", low=1, high=extent.bound + 1) for extent in extents]
    arguments += [argument(f"out{j}", "output", value, positive) for j, value in enumerate(results)]

    apart = len(ops) == 1 and not reads_neighbours(ops[0])  # a tensor that is read twice becomes two arguments
    module = ir.Module.create()
    types = [ir.Type.parse(a.type) for a in arguments]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(outline.__name__, ir.FunctionType.get(types, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        size = read_extent(block.arguments[len(values)]) if extents else None
        tensors = [to_tensor(block.arguments[j], value, size) for j, value in enumerate(values)]
        next_tensor = iter(tensors)
        copies = dict(zip(values, tensors, strict=True))
        for op in ops:
            fresh = {i: make_again(op.operands[i], size) for i in range(len(op.operands)) if (op, i) in new_operands}
            constants = {value: make_again(value) for value in captured(op) if value not in read}
            clone = op.clone().operation
            for i, value in enumerate(op.operands):
                clone.operands[i] = fresh[i] if i in fresh else next(next_tensor) if apart else copies[value]
            replace_captured(clone, copies | constants)
            if any(value in weights for value in op.operands):
                clone.attributes[WEIGHT_OF] = ir.StringAttr.get("__weight_of__")
            copies |= dict(zip(op.results, clone.results, strict=True))
        clone.attributes[TAG] = ir.StringAttr.get("__tag__")
        for j, result in enumerate(clone.results):
            target = block.arguments[len(values) + len(extents) + j]
            bufferization.materialize_in_destination(None, result, target, restrict=True, writable=True)
        func.ReturnOp([])
    return str(module), tuple(arguments)


def outer_operands(ops: Sequence[ir.Operation]) -> list[ir.Value]:
    """Return the operands of operations that are defined outside of them, in the order of their arguments."""
    inner = {result for op in ops for result in op.results}
    values = [v for op in ops for i, v in enumerate(op.operands) if not is_made(op, i) and v not in inner]
    return list(dict.fromkeys(values)) if len(ops) > 1 or reads_neighbours(ops[0]) else values


def argument_names(ops: Sequence[ir.Operation]) -> dict[ir.Operation, list[str]]:
    """Return the name of the argument that each operand becomes when outlined; empty if it is rematerialized.

    Args:
        ops: Operations in program order.
    """
    values = outer_operands(ops)
    positions = {value: number for number, value in reversed(list(enumerate(values)))}
    numbers = iter(range(len(values)))
    apart = len(ops) == 1 and not reads_neighbours(ops[0])
    names: dict[ir.Operation, list[str]] = {}
    for op in ops:
        names[op] = []
        for number, value in enumerate(op.operands):
            if is_made(op, number) or value not in positions:
                names[op].append("")
            else:
                names[op].append(f"in{next(numbers) if apart else positions[value]}")
    return names


def reads_neighbours(op: ir.Operation) -> bool:
    """Return whether an operation is a stencil, which may read one tensor by several operands."""
    read = read_op(op)
    return read is not None and is_stencil(read)


def is_made(op: ir.Operation, index: int) -> bool:
    """Return whether an operand is rematerialized instead of passed: a constant, or a filled or unread destination."""
    return is_constant(op.operands[index]) or is_fresh(op, index, len(op.operands) - len(op.results))


def to_tensor(memref: ir.Value, value: ir.Value, size: ir.Value | None) -> ir.Value:
    """Build the tensor that replaces `value`: the contents of an argument, or a prefix of it if the size is dynamic."""
    tensor_type = (
        ir.RankedTensorType.get(static_shape(value), value.type.element_type) if is_tensor(value) else value.type
    )
    whole = bufferization.to_tensor(tensor_type, memref, restrict=True)
    return whole if size is None or extent_of(value) is None else first_part(value.type, whole, size)


def read_extent(memref: ir.Value) -> ir.Value:
    """Build a read of the dynamic size that an argument holds."""
    sizes = bufferization.to_tensor(
        ir.RankedTensorType.get([1], ir.IntegerType.get_signless(64)), memref, restrict=True
    )
    first = index(0)
    return arith.index_cast(ir.IndexType.get(), tensor.extract(sizes, [first]))


def is_tensor(value: ir.Value) -> bool:
    """Return whether a value is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def argument(name: str, role: str, value: ir.Value, positive: bool) -> Argument:
    """Return an argument with the shape and element type of a value; data are positive for partial operations."""
    low, high = (0.25, 1.75) if positive else (-1.0, 1.0)
    if str(value.type.element_type) == "i8":
        low, high = -127, 128
    return Argument(name, role, tuple(static_shape(value)), str(value.type.element_type), low, high)


def supported(value: ir.Value) -> bool:
    """Return whether a payload argument can hold a value: a tensor of bounded sizes or scalar of a supported dtype."""
    value_type = value.type
    if isinstance(value_type, ir.RankedTensorType):
        return (value_type.has_static_shape or extent_of(value) is not None) and str(value_type.element_type) in DTYPES
    return str(value_type) in DTYPES


def make_again(value: ir.Value, size: ir.Value | None = None) -> ir.Value:
    """Rematerialize a constant, filled tensor or empty tensor like `value` at the insertion point."""
    if is_constant(value):
        return value.owner.clone().operation.results[0]
    if size is not None and extent_of(value) is not None:
        tensor_type = ir.RankedTensorType.get(static_shape(value), value.type.element_type)
        empty = first_part(value.type, bufferization.alloc_tensor(tensor_type, []), size)
    else:
        empty = tensor.empty(value.type.shape, value.type.element_type)
    fill = fill_of(value)
    if fill is None:
        return empty
    constant = make_again(fill.operands[0])
    clone = fill.clone().operation
    clone.operands[0], clone.operands[1] = constant, empty
    return clone.results[0]


def inner_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield every operation nested in `op`."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from inner_ops(inner.operation)


def captured(op: ir.Operation) -> list[ir.Value]:
    """Return the values used in the regions of an operation and defined outside of them."""
    ordered = list(inner_ops(op))
    inside = set(ordered)
    values: list[ir.Value] = []
    for inner in ordered:
        for value in inner.operands:
            producer = maker(value)
            local = producer in inside if producer is not None else value.owner.owner.operation == op
            if not local and value not in values:
                values.append(value)
    return values


def replace_captured(clone: ir.Operation, copies: dict[ir.Value, ir.Value]) -> None:
    """Replace captured values in the regions of `clone` by their copies."""
    for inner in inner_ops(clone):
        for i, value in enumerate(inner.operands):
            if value in copies:
                inner.operands[i] = copies[value]
