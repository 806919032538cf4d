"""Widening of unsigned integers in ONNX models to signed ones, since integers are signless in MLIR.

    BitwiseNot(x: u8)   ->   Sub(255, x: i32)
    Add(a: u8, b: u8)   ->   Mod(Add(a: i32, b: i32), 256)

Integers of 8 and 16 bits become i32, those of 32 bits i64, including inputs and results of the model; all values stay
in the range of their original type. An op that is not known to be correct on widened values is rejected. QuantizeLinear
with several scales is rewritten here for i8 as well, because torch-mlir does not lower it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.linalg import cannot_lower
from payload.importers.onnx_domains import every_node, graphs_of
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, dtype_of, facts_of, of
from payload.importers.onnx_oracle import to_array
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_plain import define
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

FLOAT, INT8, INT32, INT64, DOUBLE = 1, 3, 6, 7, 11  # element types in TensorProto
BITS = {2: 8, 4: 16, 12: 32}  # bit widths of uint8, uint16 and uint32
WIDER = {2: INT32, 4: INT32, 12: INT64}
REFUSED = {13: "uint64", 21: "uint4", 25: "uint2"}
EXACT = 2**24 // 255**2  # maximum number of 8-bit products whose sum is exact in f32
# Ops whose result is the same on widened integers, provided that their inputs are in the range of the original type.
SAME = frozenset(
    [
        "Abs",
        "ArgMax",
        "ArgMin",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Clip",
        "Concat",
        "DepthToSpace",
        "Div",
        "Dropout",
        "Equal",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Max",
        "MaxPool",
        "Min",
        "Mod",
        "OneHot",
        "Pad",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "ReverseSequence",
        "ScatterElements",
        "ScatterND",
        "Shape",
        "Sign",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    ]
)
# Ops whose low result bits depend on low input bits alone: computed on widened integers, then truncated.
WRAPS = frozenset(
    [
        "Add",
        "BitShift",
        "CumSum",
        "MatMul",
        "Mul",
        "ReduceL1",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Sub",
        "Sum",
    ]
)


def widen_unsigned(model: "ModelProto", weights: dict[str, Array]) -> None:
    """Widen the unsigned integers of a model and its weights to signed ones, in place.

    Raises:
        UnsupportedError: An op on unsigned integers is not supported, or an unsigned type has 64, 4 or 2 bits.
    """
    define(model, "DynamicQuantizeLinear")
    fix_sizes(model, {}, weights)
    graph = model.graph
    facts = facts_of(graph)
    for tensor in graph.input:
        check_kind(f"input {tensor.name}", tensor.type.tensor_type.elem_type)
    nodes: list[NodeProto] = []
    for number, node in enumerate(graph.node):
        kinds = {facts.kinds.get(name, 0) for name in (*node.input, *node.output)}
        for kind in sorted(kinds):
            check_kind(node.doc_string, kind)
        if reads_unsigned_inside(node):
            raise cannot_lower(node.doc_string, "unsigned integers are not known inside graphs")
        if not kinds & BITS.keys() and not quantizes_by_several(node, facts):
            nodes.append(node)
            continue
        writer = NodeWriter(graph, f"unsigned_{node.op_type.lower()}_{number}")
        if not write_node(writer, node, facts):
            raise cannot_lower(node.doc_string, "unsigned integers are not known in this op, or in this form of it")
        nodes += take_origin(writer.nodes, node)
    replace_all(graph.node, nodes)
    if not set(facts.kinds.values()) & BITS.keys():
        fix_sizes(model, {}, weights)
        return
    replace_all(graph.initializer, [widened(tensor) for tensor in graph.initializer])
    for tensor in [*graph.input, *graph.output]:
        widen(tensor)
    del graph.value_info[:]
    for name, array in weights.items():
        if array.dtype.kind == "u":
            weights[name] = array.astype(np.int32 if array.dtype.itemsize < np.dtype(np.int32).itemsize else np.int64)
    fix_sizes(model, {}, weights)


def check_kind(name: str, kind: int) -> None:
    """Raise for unsigned types that cannot be widened, or are narrower than 8 bits.

    Raises:
        UnsupportedError: The element type is in `REFUSED`.
    """
    if kind in REFUSED:
        raise cannot_lower(name, f"{REFUSED[kind]} is not known; cast it in the model")


def reads_unsigned_inside(node: "NodeProto") -> bool:
    """Return whether subgraphs of a node contain unsigned integers."""
    kinds = BITS.keys() | REFUSED.keys()
    for graph in graphs_of(node):
        if any(tensor.data_type in kinds for tensor in graph.initializer) or kinds & set(
            facts_of(graph).kinds.values()
        ):
            return True
        for inner in every_node(graph):
            if any(a.name in ("to", "dtype", "output_dtype") and a.i in kinds for a in inner.attribute):
                return True
            if any(attribute.t.data_type in kinds for attribute in inner.attribute):
                return True
    return False


def widened(tensor: "TensorProto") -> "TensorProto":
    """Return a constant in its widened type."""
    from onnx import numpy_helper  # noqa: PLC0415 - comes with an extra

    if tensor.data_type not in WIDER:
        return tensor
    dtype = dtype_of(WIDER[tensor.data_type])
    return numpy_helper.from_array(to_array(tensor).astype(dtype), tensor.name)


def widen(tensor: "ValueInfoProto") -> None:
    """Change an input or a result to its widened type, in place."""
    kind = tensor.type.tensor_type
    kind.elem_type = WIDER.get(kind.elem_type, kind.elem_type)


def write_node(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite an op on unsigned integers to widened ones; return whether it is supported."""
    own = WRITTEN.get(node.op_type)
    if own is not None:
        return own(writer, node, facts)
    is_scatter = node.op_type.startswith("Scatter") and of(node, "reduction", "none") not in ("none", "max", "min")
    if node.op_type in WRAPS:
        return wrap(writer, node, facts)
    if node.op_type not in SAME or is_scatter:
        return False
    writer.nodes.append(node)
    return True


def wrap(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Compute an op on widened integers and truncate its result, which may leave the range."""
    from onnx import NodeProto  # noqa: PLC0415

    kind = facts.kinds.get(node.output[0], 0)
    if kind not in BITS:
        return False
    wide = NodeProto()
    wide.CopyFrom(node)
    wide.output[0] = f"{writer.stem}_wide"
    writer.nodes.append(wide)
    cut(writer, wide.output[0], kind, node.output[0])
    return True


def cut(writer: NodeWriter, x: str, kind: int, into: str) -> None:
    """Truncate widened integers to their low bits."""
    writer.add("Mod", x, writer.number(2 ** BITS[kind], WIDER[kind]), into=into)


def cast(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Cast and CastLike: casts to unsigned types truncate; casts from them are unchanged (non-negative)."""
    before, after = facts.kinds.get(node.input[0], 0), facts.kinds.get(node.output[0], 0)
    if not after:
        return False
    if after not in BITS:
        writer.add("Cast", node.input[0], into=node.output[0], to=after)
        return True
    cut(writer, writer.add("Cast", node.input[0], to=WIDER[after]), after, node.output[0])
    return bool(before)


def invert(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite BitwiseNot as the difference from the largest value."""
    kind = facts.kinds[node.input[0]]
    writer.add("Sub", writer.number(2 ** BITS[kind] - 1, WIDER[kind]), node.input[0], into=node.output[0])
    return True


def resize(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Keep Resize in nearest mode, which copies elements."""
    writer.nodes.append(node)
    return bool(of(node, "mode", "nearest") == "nearest")


def power(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Keep Pow of floats with an unsigned exponent."""
    writer.nodes.append(node)
    return facts.kinds.get(node.input[0]) in (FLOAT, DOUBLE)


def spread(writer: NodeWriter, name: str, facts: KnownTensors, rank: int, axis: int) -> str:
    """Reshape scales or zero points for broadcasting: one for all, or one per index of an axis."""
    shape = facts.shapes[name]
    if len(shape) != 1:
        return name
    sizes = [1] * rank
    if rank:
        sizes[axis] = shape[0]
    return writer.reshape(name, *sizes)


def are_simple(facts: KnownTensors, *names: str) -> bool:
    """Return whether scales and zero points are scalars or 1-D, one per index of an axis."""
    return all(len(facts.shapes.get(name, [0, 0])) <= 1 for name in names if name)


def quantizes_by_several(node: "NodeProto", facts: KnownTensors) -> bool:
    """Return whether a node is QuantizeLinear with several scales, of an axis or of blocks."""
    return node.op_type == "QuantizeLinear" and prod(facts.shapes.get(node.input[1], [])) > 1


def quantize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite QuantizeLinear: divide, round to even, add the zero point, saturate."""
    x, scale, zero = [*node.input, ""][:3]
    kind, size = facts.kinds.get(node.output[0], 0), of(node, "block_size", 0)
    if x not in facts.shapes or kind not in (*BITS, INT8) or not (size or are_simple(facts, scale, zero)):
        return False
    shape = facts.shapes[x]
    axis = of(node, "axis", 1)
    scale, zero = (
        (repeat(writer, name, shape, axis, size) if size else spread(writer, name, facts, len(shape), axis))
        if name
        else ""
        for name in (scale, zero)
    )
    saturate(writer, writer.add("Div", real(writer, x), real(writer, scale)), zero, kind, node.output[0])
    return True


def repeat(writer: NodeWriter, name: str, shape: Sequence[int], axis: int, size: int) -> str:
    """Repeat scales or zero points of blocks along an axis for every element of their block."""
    axis %= len(shape)
    before, behind = shape[:axis], shape[axis + 1 :]
    blocks = writer.reshape(name, *before, shape[axis] // size, 1, *behind)
    whole = writer.add("Expand", blocks, writer.numbers(*before, shape[axis] // size, size, *behind))
    return writer.reshape(whole, *shape)


def saturate(writer: NodeWriter, x: str, zero: str, kind: int, into: str) -> None:
    """Round floats, add a zero point, and saturate to the range of an unsigned or 8-bit integer type."""
    rounded = writer.add("Round", x)
    shifted = writer.add("Add", rounded, real(writer, zero)) if zero else rounded
    ends = np.iinfo(dtype_of(kind))
    clipped = writer.add("Clip", shifted, writer.real(ends.min), writer.real(ends.max))
    writer.add("Cast", clipped, into=into, to=WIDER.get(kind, kind))


def dequantize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite DequantizeLinear: subtract the zero point and multiply by the scale."""
    x, scale, zero = [*node.input, ""][:3]
    if x not in facts.shapes or of(node, "block_size", 0) or not are_simple(facts, scale, zero):
        return False
    rank, axis = len(facts.shapes[x]), of(node, "axis", 1)
    difference = centred(writer, x, spread(writer, zero, facts, rank, axis) if zero else "", FLOAT)
    factor = real(writer, spread(writer, scale, facts, rank, axis))
    kind = facts.kinds.get(node.output[0]) or facts.kinds[scale]
    writer.add("Cast", writer.add("Mul", difference, factor), into=node.output[0], to=kind)
    return True


def real(writer: NodeWriter, x: str, kind: int = FLOAT) -> str:
    """Cast to f32, or to another float type."""
    return writer.add("Cast", x, to=kind)


def centred(writer: NodeWriter, x: str, zero: str, kind: int) -> str:
    """Cast integers to float and subtract their zero point."""
    return writer.add("Sub", real(writer, x, kind), real(writer, zero, kind)) if zero else real(writer, x, kind)


def kind_of_sums(terms: int) -> int:
    """Return the float type that holds a sum of `terms` 8-bit products exactly."""
    return FLOAT if terms <= EXACT else DOUBLE


def multiply(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite MatMulInteger and QLinearMatMul as float products, in a type that holds the integer sums exactly."""
    is_scaled = node.op_type == "QLinearMatMul"
    if is_scaled:
        a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = node.input
    else:
        a, b, a_zero, b_zero = [*node.input, "", ""][:4]
        a_scale = b_scale = scale = zero = ""
    known = a in facts.shapes and b in facts.shapes and facts.shapes[a]
    if not known or not are_simple(facts, a_scale, a_zero, b_scale, b_zero, scale, zero):
        return False
    if any(name and prod(facts.shapes[name]) > 1 for name in (a_scale, scale, zero)):
        return False
    ranks = [len(facts.shapes[name]) for name in (a, b)]
    kind = kind_of_sums(facts.shapes[a][-1])
    sides = [
        centred(writer, x, spread(writer, z, facts, rank, axis) if z else "", kind)
        for x, z, rank, axis in ((a, a_zero, ranks[0], max(ranks[0] - 2, 0)), (b, b_zero, ranks[1], -1))
    ]
    total = writer.add("MatMul", *sides)
    if not is_scaled:
        writer.add("Cast", total, into=node.output[0], to=INT32)
        return True
    scaled = rescale(writer, total, (a_scale, b_scale, scale))
    saturate(writer, scaled, zero, facts.kinds[zero], node.output[0])
    return True


def rescale(writer: NodeWriter, total: str, scales: tuple[str, str, str]) -> str:
    """Scale sums of integer products to the result with one f32 factor, as ONNX Runtime does."""
    a, b, scale = (real(writer, name) for name in scales)
    factor = writer.add("Div", writer.add("Mul", a, b), scale)
    return writer.add("Mul", real(writer, total), factor)


def convolve(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite ConvInteger and QLinearConv as float convolutions, in a type that holds the integer sums exactly."""
    is_scaled, bias = node.op_type == "QLinearConv", ""
    if is_scaled:
        x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias = [*node.input, ""][:9]
    else:
        x, w, x_zero, w_zero = [*node.input, "", ""][:4]
        x_scale = w_scale = scale = zero = ""
    if x not in facts.shapes or w not in facts.shapes:
        return False
    names = (x_scale, x_zero, w_scale, w_zero, scale, zero)
    if not are_simple(facts, *names) or any(n and prod(facts.shapes[n]) > 1 for n in (x_scale, x_zero, scale, zero)):
        return False
    rank, kind = len(facts.shapes[w]), kind_of_sums(prod(facts.shapes[w][1:]))
    kernel = centred(writer, w, spread(writer, w_zero, facts, rank, 0) if w_zero else "", kind)
    image = centred(writer, x, spread(writer, x_zero, facts, rank, 0) if x_zero else "", kind)
    attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    total = writer.add("Conv", image, kernel, **attributes)
    if not is_scaled:
        writer.add("Cast", total, into=node.output[0], to=INT32)
        return True
    if bias:
        total = writer.add("Add", real(writer, total, INT32), spread(writer, bias, facts, rank, 1))
    scales = (x_scale, spread(writer, w_scale, facts, rank, 1), scale)
    zero_point = spread(writer, zero, facts, rank, 1)
    saturate(writer, rescale(writer, total, scales), zero_point, facts.kinds[zero], node.output[0])
    return True


WRITTEN: Mapping[str, Callable[[NodeWriter, "NodeProto", KnownTensors], bool]] = {
    "BitwiseNot": invert,
    "Cast": cast,
    "CastLike": cast,
    "ConvInteger": convolve,
    "DequantizeLinear": dequantize,
    "MatMulInteger": multiply,
    "Pow": power,
    "QLinearConv": convolve,
    "QLinearMatMul": multiply,
    "QuantizeLinear": quantize,
    "Resize": resize,
}
