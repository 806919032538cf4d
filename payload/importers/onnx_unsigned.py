"""Unsigned integers of ONNX models: computed as wider signed ones, as MLIR's own integers have no sign.

    BitwiseNot(x: u8)   ->   Sub(255, x: i32)
    Add(a: u8, b: u8)   ->   Mod(Add(a: i32, b: i32), 256)

Integers of 8 and 16 bits are i32, those of 32 bits i64, inputs and results of the model included; all stay in the range
of their own type. An op that is not known to be right then is refused, by its node. QuantizeLinear by several scales is
written out here for signed bytes, too, as torch-mlir does not lower it.
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

FLOAT, INT8, INT32, INT64, DOUBLE = 1, 3, 6, 7, 11  # ONNX's numbers of types
BITS = {2: 8, 4: 16, 12: 32}  # of uint8, uint16 and uint32, by those numbers
WIDER = {2: INT32, 4: INT32, 12: INT64}
REFUSED = {13: "uint64", 21: "uint4", 25: "uint2"}
EXACT = 2**24 // 255**2  # products of 8 bits whose sum f32 holds exactly
# Ops that give the same of wider integers, as long as what they read is in the range of the narrower.
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
# Ops whose low bits depend on low bits alone: computed wider, then cut off.
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
    """Compute a model's unsigned integers as wider signed ones, in place; its weights, too.

    Raises:
        UnsupportedError: An op on unsigned integers is not known, or an integer has 64 bits or 4.
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


def check_kind(what: str, kind: int) -> None:
    """Refuse unsigned integers that nothing here is wider than, or narrower than bytes.

    Raises:
        UnsupportedError: A tensor holds such.
    """
    if kind in REFUSED:
        raise cannot_lower(what, f"{REFUSED[kind]} is not known; cast it in the model")


def reads_unsigned_inside(node: "NodeProto") -> bool:
    """Return whether graphs inside a node have unsigned integers of their own."""
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
    """A constant in its wider type."""
    from onnx import numpy_helper  # noqa: PLC0415 - comes with an extra

    if tensor.data_type not in WIDER:
        return tensor
    dtype = dtype_of(WIDER[tensor.data_type])
    return numpy_helper.from_array(to_array(tensor).astype(dtype), tensor.name)


def widen(tensor: "ValueInfoProto") -> None:
    """Give an input or a result its wider type, in place."""
    kind = tensor.type.tensor_type
    kind.elem_type = WIDER.get(kind.elem_type, kind.elem_type)


def write_node(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Write an op on unsigned integers as ones on wider integers; returns whether that is known."""
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
    """An op whose result may leave the range: its low bits."""
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
    """The low bits of wider integers."""
    writer.add("Mod", x, writer.number(2 ** BITS[kind], WIDER[kind]), into=into)


def cast(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Cast and CastLike: the low bits of what is cast to unsigned integers; others are as they are, being positive."""
    before, after = facts.kinds.get(node.input[0], 0), facts.kinds.get(node.output[0], 0)
    if not after:
        return False
    if after not in BITS:
        writer.add("Cast", node.input[0], into=node.output[0], to=after)
        return True
    cut(writer, writer.add("Cast", node.input[0], to=WIDER[after]), after, node.output[0])
    return bool(before)


def invert(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """BitwiseNot: the distance from the largest."""
    kind = facts.kinds[node.input[0]]
    writer.add("Sub", writer.number(2 ** BITS[kind] - 1, WIDER[kind]), node.input[0], into=node.output[0])
    return True


def resize(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Resize, where elements are taken as they are."""
    writer.nodes.append(node)
    return bool(of(node, "mode", "nearest") == "nearest")


def power(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """A power of real numbers, whose exponent alone is an integer."""
    writer.nodes.append(node)
    return facts.kinds.get(node.input[0]) in (FLOAT, DOUBLE)


def spread(writer: NodeWriter, name: str, facts: KnownTensors, rank: int, axis: int) -> str:
    """Scales or zero points in the shape that they are broadcast from: one, or one for each index of an axis."""
    shape = facts.shapes[name]
    if len(shape) != 1:
        return name
    sizes = [1] * rank
    if rank:
        sizes[axis] = shape[0]
    return writer.reshape(name, *sizes)


def are_simple(facts: KnownTensors, *names: str) -> bool:
    """Return whether scales and zero points are one for all, or one for each index of an axis."""
    return all(len(facts.shapes.get(name, [0, 0])) <= 1 for name in names if name)


def quantizes_by_several(node: "NodeProto", facts: KnownTensors) -> bool:
    """Return whether a node is QuantizeLinear by scales of an axis or of blocks."""
    return node.op_type == "QuantizeLinear" and prod(facts.shapes.get(node.input[1], [])) > 1


def quantize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """QuantizeLinear: rounded to even, then saturated."""
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
    """Scales or zero points of blocks along an axis of a shape, each as often as its block has elements."""
    axis %= len(shape)
    before, behind = shape[:axis], shape[axis + 1 :]
    blocks = writer.reshape(name, *before, shape[axis] // size, 1, *behind)
    whole = writer.add("Expand", blocks, writer.numbers(*before, shape[axis] // size, size, *behind))
    return writer.reshape(whole, *shape)


def saturate(writer: NodeWriter, x: str, zero: str, kind: int, into: str) -> None:
    """Real numbers rounded, beside a zero point, and held in the range of an integer type, unsigned or of 8 bits."""
    rounded = writer.add("Round", x)
    moved = writer.add("Add", rounded, real(writer, zero)) if zero else rounded
    ends = np.iinfo(dtype_of(kind))
    held = writer.add("Clip", moved, writer.real(ends.min), writer.real(ends.max))
    writer.add("Cast", held, into=into, to=WIDER.get(kind, kind))


def dequantize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """DequantizeLinear."""
    x, scale, zero = [*node.input, ""][:3]
    if x not in facts.shapes or of(node, "block_size", 0) or not are_simple(facts, scale, zero):
        return False
    rank, axis = len(facts.shapes[x]), of(node, "axis", 1)
    moved = centred(writer, x, spread(writer, zero, facts, rank, axis) if zero else "", FLOAT)
    factor = real(writer, spread(writer, scale, facts, rank, axis))
    kind = facts.kinds.get(node.output[0]) or facts.kinds[scale]
    writer.add("Cast", writer.add("Mul", moved, factor), into=node.output[0], to=kind)
    return True


def real(writer: NodeWriter, x: str, kind: int = FLOAT) -> str:
    """Numbers in f32, or f64."""
    return writer.add("Cast", x, to=kind)


def centred(writer: NodeWriter, x: str, zero: str, kind: int) -> str:
    """Integers beside their zero point, as real numbers."""
    return writer.add("Sub", real(writer, x, kind), real(writer, zero, kind)) if zero else real(writer, x, kind)


def kind_of_sums(terms: int) -> int:
    """The type of real numbers that holds a sum of so many products of 8 bits exactly."""
    return FLOAT if terms <= EXACT else DOUBLE


def multiply(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """MatMulInteger and QLinearMatMul: products of integers in real numbers that hold them exactly."""
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
    """Sums of products of integers in the scale of the result, as ONNX Runtime does: one factor in f32."""
    a, b, scale = (real(writer, name) for name in scales)
    factor = writer.add("Div", writer.add("Mul", a, b), scale)
    return writer.add("Mul", real(writer, total), factor)


def convolve(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """ConvInteger and QLinearConv: products of integers in real numbers that hold them exactly."""
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
    kept = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
    total = writer.add("Conv", image, kernel, **kept)
    if not is_scaled:
        writer.add("Cast", total, into=node.output[0], to=INT32)
        return True
    if bias:
        total = writer.add("Add", real(writer, total, INT32), spread(writer, bias, facts, rank, 1))
    scales = (x_scale, spread(writer, w_scale, facts, rank, 1), scale)
    one = spread(writer, zero, facts, rank, 1)
    saturate(writer, rescale(writer, total, scales), one, facts.kinds[zero], node.output[0])
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
