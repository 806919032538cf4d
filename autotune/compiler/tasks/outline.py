"""Outlining: structured ops as a module of their own, memrefs outside, tensors inside."""

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

# Ops that are not defined, or not finite, for every input.
PARTIAL = ("arith.divf", "math.rsqrt", "math.sqrt", "math.log", "math.log2", "math.log1p", "math.powf")
EXTENT = "extent"  # the argument that holds a size known at run time only


def outline(ops: Sequence[ir.Operation], weights: Collection[ir.Value] = ()) -> tuple[str, tuple[Argument, ...]] | None:
    """Copy ops into function ``@outline`` of a new module, the last one tagged ``__tag__``.

    Inputs become arguments ``in0``, ``in1``, ...; results of the last op ``out0``, ... . An init that is filled with a
    constant is filled again, one that the op never reads becomes an empty tensor, any other becomes an input.

    Args:
        ops: Ops in program order; all but the last are read by these alone.
        weights: Operands that are weights; arguments that stand for them have that role.

    Tensors with a size that is known at run time only become arguments of its bound; the size itself, argument
    ``extent``. It must be the same everywhere.

    Tensors that a body reads elements of become arguments too; those that hold indices, of such as there are.

    Returns:
        The module's text and its arguments; `None` if a body uses other values from outside that are not constants,
        or element types that payloads do not have.
    """
    made = {(op, i) for op in ops for i in range(len(op.operands)) if is_made(op, i)}
    values = taken(ops)
    read = gathered(ops[-1])
    if read is None:
        return None
    values += read
    results = list(ops[-1].results)
    outside = [value for op in ops for value in captured(op)]
    everything = [*values, *(operand for op in ops for operand in op.operands), *results]
    foreign = any(not is_constant(value) and value not in read for value in outside)
    foreign |= not all(is_tensor(value) for value in values)  # a number that is computed, as a zero point
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

    apart = len(ops) == 1 and not reads_neighbours(ops[0])  # an array that is read twice is two arguments
    module = ir.Module.create()
    types = [ir.Type.parse(a.type) for a in arguments]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(outline.__name__, ir.FunctionType.get(types, []))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        size = read_extent(block.arguments[len(values)]) if extents else None
        tensors = [to_tensor(block.arguments[j], value, size) for j, value in enumerate(values)]
        given = iter(tensors)
        copies = dict(zip(values, tensors, strict=True))
        for op in ops:
            fresh = {i: make_again(op.operands[i], size) for i in range(len(op.operands)) if (op, i) in made}
            constants = {value: make_again(value) for value in captured(op) if value not in read}
            clone = op.clone().operation
            for i, value in enumerate(op.operands):
                clone.operands[i] = fresh[i] if i in fresh else next(given) if apart else copies[value]
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


def taken(ops: Sequence[ir.Operation]) -> list[ir.Value]:
    """Values from outside that ops take as operands, in the order of the arguments that they become."""
    inner = {result for op in ops for result in op.results}
    values = [v for op in ops for i, v in enumerate(op.operands) if not is_made(op, i) and v not in inner]
    return list(dict.fromkeys(values)) if len(ops) > 1 or reads_neighbours(ops[0]) else values


def argument_names(ops: Sequence[ir.Operation]) -> dict[ir.Operation, list[str]]:
    """Name of the argument that every operand becomes when ops are outlined; empty of one that is made again.

    Args:
        ops: Ops in program order.
    """
    values = taken(ops)
    positions = {value: number for number, value in reversed(list(enumerate(values)))}
    given = iter(range(len(values)))
    apart = len(ops) == 1 and not reads_neighbours(ops[0])
    names: dict[ir.Operation, list[str]] = {}
    for op in ops:
        names[op] = []
        for number, value in enumerate(op.operands):
            if is_made(op, number) or value not in positions:
                names[op].append("")
            else:
                names[op].append(f"in{next(given) if apart else positions[value]}")
    return names


def reads_neighbours(op: ir.Operation) -> bool:
    """Tell whether an op is a stencil, several of whose operands may be one array."""
    read = read_op(op)
    return read is not None and is_stencil(read)


def is_made(op: ir.Operation, index: int) -> bool:
    """Tell whether an operand is made again rather than passed: a constant, or an init of no interest."""
    return is_constant(op.operands[index]) or is_fresh(op, index, len(op.operands) - len(op.results))


def to_tensor(memref: ir.Value, value: ir.Value, size: ir.Value | None) -> ir.Value:
    """The tensor that stands for `value`: what an argument holds, or the first part of it."""
    kind = ir.RankedTensorType.get(static_shape(value), value.type.element_type) if is_tensor(value) else value.type
    whole = bufferization.to_tensor(kind, memref, restrict=True)
    return whole if size is None or extent_of(value) is None else first_part(value.type, whole, size)


def read_extent(memref: ir.Value) -> ir.Value:
    """The index that an argument holds."""
    held = bufferization.to_tensor(ir.RankedTensorType.get([1], ir.IntegerType.get_signless(64)), memref, restrict=True)
    first = index(0)
    return arith.index_cast(ir.IndexType.get(), tensor.extract(held, [first]))


def is_tensor(value: ir.Value) -> bool:
    """Tell whether a value is a tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def argument(name: str, role: str, value: ir.Value, positive: bool) -> Argument:
    """An argument of the value's shape and element type; signed random data, unless the op is partial."""
    low, high = (0.25, 1.75) if positive else (-1.0, 1.0)
    if str(value.type.element_type) == "i8":
        low, high = -127, 128
    return Argument(name, role, tuple(static_shape(value)), str(value.type.element_type), low, high)


def supported(value: ir.Value) -> bool:
    """Tell whether a payload can hold the value: a tensor of bounded sizes or a scalar, of a dtype it may have."""
    kind = value.type
    if isinstance(kind, ir.RankedTensorType):
        return (kind.has_static_shape or extent_of(value) is not None) and str(kind.element_type) in DTYPES
    return str(kind) in DTYPES


def make_again(value: ir.Value, size: ir.Value | None = None) -> ir.Value:
    """A constant, a filled tensor or an empty tensor like `value`, at the insertion point."""
    if is_constant(value):
        return value.owner.clone().operation.results[0]
    if size is not None and extent_of(value) is not None:
        kind = ir.RankedTensorType.get(static_shape(value), value.type.element_type)
        empty = first_part(value.type, bufferization.alloc_tensor(kind, []), size)
    else:
        empty = tensor.empty(value.type.shape, value.type.element_type)
    fill = fill_of(value)
    if fill is None:
        return empty
    constant = make_again(fill.operands[0])
    again = fill.clone().operation
    again.operands[0], again.operands[1] = constant, empty
    return again.results[0]


def inner_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every operation in the regions of `op`."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from inner_ops(inner.operation)


def captured(op: ir.Operation) -> list[ir.Value]:
    """Values used inside the op's regions and defined outside of them."""
    ordered = list(inner_ops(op))
    inside = set(ordered)
    found: list[ir.Value] = []
    for inner in ordered:
        for value in inner.operands:
            made_by = maker(value)
            local = made_by in inside if made_by is not None else value.owner.owner.operation == op
            if not local and value not in found:
                found.append(value)
    return found


def replace_captured(clone: ir.Operation, copies: dict[ir.Value, ir.Value]) -> None:
    """Make the regions of `clone` use the copies."""
    for inner in inner_ops(clone):
        for i, value in enumerate(inner.operands):
            if value in copies:
                inner.operands[i] = copies[value]
