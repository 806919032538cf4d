"""Rewrites of ONNX ops that torch-mlir lowers differently from the ONNX specification, or that make it hang."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.linalg import cannot_lower
from payload.importers.onnx_contrib import by_tanh
from payload.importers.onnx_einsum import multiply_in_pairs
from payload.importers.onnx_grids import sample
from payload.importers.onnx_indices import SORTS_AND_SCATTERS, read_by_axis
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, dtype_of, facts_of, of
from payload.importers.onnx_origins import origins_of, take_origin, take_origins
from payload.importers.onnx_pools import write_global_maximum, write_pool
from payload.importers.onnx_resize import resize, resize_as_specified
from payload.importers.onnx_strange import (
    REAL,
    choose_of_equals,
    compare_with_itself,
    equal_to_itself,
    remainder_towards_zero,
)
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from autotune.core.payload import Array

PLANES = 4  # rank of images
FLOAT, WHOLE = 1, 7  # TensorProto.FLOAT and TensorProto.INT64
AXES, STEPS = 3, 4  # input positions of the axes of Pad and Slice, and of the steps of Slice
PADS_CHOSEN = ("auto_pad", "output_shape", "pads")
BEFORE_ALL = -(1 << 63)  # end of a backward slice that includes the first element
PADDED: dict[str, Callable[[int, int, int], tuple[Sequence[int], Sequence[int]]]] = {
    "reflect": lambda size, low, high: (range(low, 0, -1), range(size - 2, size - 2 - high, -1)),
    "edge": lambda size, low, high: ([0] * low, [size - 1] * high),
    "wrap": lambda size, low, high: ([i % size for i in range(-low, 0)], [i % size for i in range(high)]),
}  # by mode: indices of the elements to prepend and to append, from (size, low, high)


def write_plainly(model: "ModelProto") -> None:
    """Apply `REWRITES` to a model in place, and make default attributes explicit; all shapes must be inferred."""
    for node in model.graph.node:
        say_defaults(model, node)
    rewrite_nodes(model.graph, REWRITES)
    for output in model.graph.output:
        copy_passed_through(model.graph, output)


def rewrite_nodes(
    graph: "GraphProto", rewrites: Mapping[str, Rewrite], weights: "dict[str, Array] | None" = None
) -> bool:
    """Rewrite nodes of a graph by op type, in place; return whether any was rewritten.

    All shapes must be inferred. Entries of `weights`, arrays of graph inputs by name, that are no longer read after the
    rewrite are removed.
    """
    known = weights if weights is not None else {}
    facts, nodes, is_any = replace(facts_of(graph), weights=known), list["NodeProto"](), False
    for number, node in enumerate(graph.node):
        writer, rewrite = NodeWriter(graph, f"{node.op_type.lower()}_{number}"), rewrites.get(node.op_type)
        is_read = not node.domain and len(node.input) > 0 and node.input[0] in facts.shapes
        written = rewrite is not None and is_read and rewrite(writer, node, facts)
        nodes += take_origin(writer.nodes, node) if written else [node]
        is_any = is_any or bool(written)
    replaced = {name for node in graph.node if node.op_type in rewrites for name in node.input}
    replace_all(graph.node, nodes)
    for name in (replaced - {name for node in graph.node for name in node.input}) & known.keys():
        del known[name]
        replace_all(graph.input, [tensor for tensor in graph.input if tensor.name != name])
    return is_any


def copy_passed_through(graph: "GraphProto", output: "ValueInfoProto") -> None:
    """Insert an Identity for a graph output that is an input or an initializer."""
    from onnx import helper  # noqa: PLC0415 - comes with an extra

    if not any(output.name in node.output for node in graph.node):
        source, output.name = output.name, f"{output.name}_result"
        graph.node.append(helper.make_node("Identity", [source], [output.name]))


def define(model: "ModelProto", op: str) -> bool:
    """Inline the ONNX function definition of all nodes of an op type, in place; return whether it has one."""
    from onnx import inliner  # noqa: PLC0415 - comes with an extra

    nodes, origins = [node for node in model.graph.node if node.op_type == op], origins_of(model.graph)
    for node in nodes:
        say_defaults(model, node, every=True)
    try:
        inlined = inliner.inline_selected_functions(model, [("", op)], inline_schema_functions=True) if nodes else model
    except RuntimeError:  # the definition depends on a shape that is unknown
        return False
    if not nodes or any(node.op_type == op for node in inlined.graph.node):
        return False
    model.CopyFrom(inlined)
    take_origins(model.graph, origins)
    return True


def name_shapes(graph: "GraphProto") -> None:
    """Replace Shape nodes of known shapes by constants, in place."""
    from onnx import numpy_helper  # noqa: PLC0415 - comes with an extra

    known, left = facts_of(graph), []
    for node in graph.node:
        shape = known.shapes.get(node.input[0]) if node.op_type == "Shape" else None
        if shape is None:
            left.append(node)
            continue
        part = np.array(shape[of(node, "start", 0) : of(node, "end", len(shape))], np.int64)
        graph.initializer.append(numpy_helper.from_array(part, node.output[0]))
    replace_all(graph.node, left)


def say_defaults(model: "ModelProto", node: "NodeProto", *, every: bool = False) -> None:
    """Make default float attributes explicit, or all defaults with `every`: torch-mlir has rounded copies of some."""
    from onnx import AttributeProto, defs  # noqa: PLC0415

    versions = {each.domain: each.version for each in model.opset_import}
    if not defs.has(node.op_type, node.domain) or node.domain not in versions:
        return
    stated = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, versions[node.domain], node.domain).attributes.items():
        kinds = (AttributeProto.FLOAT, *((AttributeProto.INT, AttributeProto.STRING) if every else ()))
        if name not in stated and attribute.default_value.type in kinds:
            node.attribute.append(attribute.default_value)


def spread_channels(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite DepthToSpace, of which torch-mlir supports one mode, as reshape, transpose, reshape."""
    side, by_columns = of(node, "blocksize", 1), of(node, "mode", "DCR") == "CRD"
    if len(facts.shapes[node.input[0]]) != PLANES:
        return False
    n, channels, h, w = facts.shapes[node.input[0]]
    c = channels // side**2
    split = writer.reshape(node.input[0], n, *((c, side, side) if by_columns else (side, side, c)), h, w)
    transposed = writer.add("Transpose", split, perm=[0, 1, 4, 2, 5, 3] if by_columns else [0, 3, 4, 1, 5, 2])
    writer.reshape(transposed, n, c, h * side, w * side, into=node.output[0])
    return True


def gather_channels(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite SpaceToDepth in CRD mode, which torch-mlir treats as DCR, as reshape, transpose, reshape."""
    side, shape = of(node, "blocksize", 1), facts.shapes[node.input[0]]
    if of(node, "mode", "DCR") != "CRD" or len(shape) != PLANES:
        return False
    n, c, h, w = shape
    split = writer.reshape(node.input[0], n, c, h // side, side, w // side, side)
    transposed = writer.add("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    writer.reshape(transposed, n, c * side**2, h // side, w // side, into=node.output[0])
    return True


def pad_by_copies(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Pad in reflect, edge or wrap mode as a concatenation of slices, one axis at a time.

    torch-mlir reads reflected padding element by element, and hangs on wrapped padding.
    """
    shape, inputs, mode = facts.shapes[node.input[0]], dict(enumerate(node.input)), of(node, "mode", "constant")
    pads = of(node, "pads", facts.constants.get(inputs.get(1, "")))
    axes = facts.constants.get(inputs[AXES]) if inputs.get(AXES) else range(len(shape))
    if pads is None or axes is None:
        return False
    last, pairs = node.input[0], zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True)
    amounts = [(int(axis) % len(shape), int(low), int(high)) for axis, low, high in pairs if low or high]
    if mode == "constant":
        return pad_what_is_cut(writer, node, amounts, shape)
    if mode not in PADDED:
        return False
    if any(amount < 0 or (mode == "reflect" and amount >= shape[axis]) for axis, *pair in amounts for amount in pair):
        return False
    for axis, low, high in amounts:
        before, behind = (copies(writer, last, axis, indices) for indices in PADDED[mode](shape[axis], low, high))
        last = writer.add("Concat", *before, last, *behind, axis=axis)
    writer.add("Identity", last, into=node.output[0])
    return True


def pad_what_is_cut(
    writer: NodeWriter, node: "NodeProto", amounts: Sequence[tuple[int, int, int]], shape: Sequence[int]
) -> bool:
    """Rewrite a constant Pad with negative amounts as a slice and a pad: torch-mlir may drop it as a no-op."""
    cut = [each for each in amounts if min(each[1:]) < 0]
    if not cut:
        return False
    axes = [axis for axis, *_ in cut]
    begins = [max(0, -low) for _, low, _ in cut]
    ends = [shape[axis] + min(0, high) for axis, _, high in cut]
    part = writer.add("Slice", node.input[0], *(writer.numbers(*each) for each in (begins, ends, axes)))
    pads = np.zeros((2, len(shape)), np.int64)
    for axis, low, high in amounts:
        pads[:, axis] = max(0, low), max(0, high)
    value = node.input[2:3] if len(node.input) > 2 else []
    writer.add("Pad", part, writer.constant(pads.reshape(-1)), *value, into=node.output[0])
    return True


def begin_inside(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Clamp the bounds of a backward Slice that starts past the last element, which torch-mlir does not do."""
    inputs, shape = dict(enumerate(node.input)), facts.shapes[node.input[0]]
    starts, ends, steps = (facts.constants.get(inputs.get(number, "")) for number in (1, 2, STEPS))
    if starts is None or ends is None or steps is None or steps.size == 0 or steps.min() > 0:
        return False
    axes = facts.constants.get(inputs[AXES]) if inputs.get(AXES) else np.arange(len(starts))
    if axes is None:
        return False
    bounds = []
    for axis, start, end, step in zip(*(each.tolist() for each in (axes, starts, ends, steps)), strict=True):
        size = shape[axis]
        low, high = (at + size if at < 0 else at for at in (start, end))
        if step < 0:
            low, high = min(max(low, 0), size - 1), min(high, size - 1)
            high = high if high >= 0 else BEFORE_ALL
        bounds.append((low, high))
    limits = (writer.numbers(*each) for each in zip(*bounds, strict=True))
    axes_and_steps = (writer.numbers(*(int(each) for each in numbers)) for numbers in (axes, steps))
    writer.add("Slice", node.input[0], *limits, *axes_and_steps, into=node.output[0])
    return True


def copies(writer: NodeWriter, x: str, axis: int, indices: Sequence[int]) -> list[str]:
    """Return slices of `x` along an axis that select the given indices in order, one slice per consecutive run."""
    runs = [[index for _, index in run] for _, run in groupby(enumerate(indices), lambda each: each[1] - each[0])]
    return [writer.slice(x, run[0], run[-1] + 1, axis) for run in runs]


def norm_by_neighbours(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite LRN: for an even window size, torch-mlir's window begins one channel earlier than ONNX's."""
    size, x, shape = of(node, "size", 1), node.input[0], facts.shapes[node.input[0]]
    factor, bias, beta = (np.array(of(node, name, 0.0), np.float32) for name in ("alpha", "bias", "beta"))
    zeros = [np.zeros([shape[0], count, *shape[2:]], np.float32) for count in ((size - 1) // 2, size // 2)]
    before, behind = ([writer.constant(each)] if each.size else [] for each in zeros)
    padded = writer.add("Concat", *before, writer.add("Mul", x, x), *behind, axis=1)
    total = writer.add("Sum", *(writer.slice(padded, first, first + shape[1], 1) for first in range(size)))
    scaled = writer.add("Mul", total, writer.constant(factor / np.float32(size)))
    power = writer.add("Pow", writer.add("Add", scaled, writer.constant(bias)), writer.constant(beta))
    writer.add("Div", x, power, into=node.output[0])
    return True


def cast_indices(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Truncate float indices of OneHot to integers, where the ONNX reference would compare them without truncation."""
    if facts.kinds[node.input[0]] not in REAL:
        return False
    indices = writer.add("Cast", node.input[0], to=WHOLE)
    writer.add("OneHot", indices, *node.input[1:], into=node.output[0], axis=of(node, "axis", -1))
    return True


def normalize(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite LpNormalization so that a vector of zeros stays zero; torch-mlir divides it by its norm."""
    x, axis = node.input[0], writer.numbers(of(node, "axis", -1))
    is_square = of(node, "p", 2) == 2
    total = writer.add("ReduceSum", writer.add("Mul", x, x) if is_square else writer.add("Abs", x), axis, keepdims=1)
    norm = writer.add("Sqrt", total) if is_square else total
    zero, one = (writer.number(value, facts.kinds[x]) for value in (0, 1))
    writer.add("Div", x, writer.add("Where", writer.add("Equal", norm, zero), one, norm), into=node.output[0])
    return True


def gelu_by_tanh(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite the tanh approximation of Gelu, which torch-mlir treats as the exact form."""
    x = node.input[0]
    is_approximate = of(node, "approximate", "none") == "tanh" and facts.kinds[x] == FLOAT
    return is_approximate and by_tanh(writer, x, FLOAT, node.output[0])


def bend_softly(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Softsign, which neither torch-mlir nor ONNX's inliner supports at the opset versions of models."""
    x = node.input[0]
    above = writer.add("Add", writer.add("Abs", x), writer.number(1, facts.kinds[x]))
    writer.add("Div", x, above, into=node.output[0])
    return True


def multiply_vector(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite MatMul of batched matrices and a vector as matrix products; torch-mlir supports a single matrix only."""
    shapes = [facts.shapes.get(name, []) for name in node.input]
    ranks = [len(shape) for shape in shapes]
    if min(ranks) != 1 or max(ranks) <= 2:
        return False
    if ranks[1] == 1:
        sides, result = [node.input[0], writer.reshape(node.input[1], -1, 1)], shapes[0][:-1]
    else:
        sides, result = [writer.reshape(node.input[0], 1, -1), node.input[1]], [*shapes[1][:-2], shapes[1][-1]]
    writer.reshape(writer.add("MatMul", *sides), *result, into=node.output[0])
    return True


def scale_product(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite Gemm without C, whose product torch-mlir does not scale by alpha."""
    scale = of(node, "alpha", 1.0)
    if scale == 1 or any(node.input[2:]):
        return False
    transposed = {name: of(node, name, 0) for name in ("transA", "transB")}
    product = writer.add("Gemm", *node.input[:2], **transposed)
    writer.add("Mul", product, writer.number(scale, facts.kinds[node.input[0]]), into=node.output[0])
    return True


def say_transposed_pads(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Make the pads of a ConvTranspose with `auto_pad` or `output_shape` explicit, as torch-mlir requires.

    Raises:
        UnsupportedError: A stride exceeds the dilated kernel, where ONNX and ONNX Runtime differ in the result's size.
    """
    auto, output_shape = of(node, "auto_pad", "NOTSET"), of(node, "output_shape", [])
    sizes, kernel = facts.shapes[node.input[0]][2:], facts.shapes.get(node.input[1], [])[2:]
    rank = len(sizes)
    if (auto not in ("SAME_UPPER", "SAME_LOWER") and not output_shape) or len(kernel) != rank:
        return False
    strides, dilations = (of(node, name, [1] * rank) for name in ("strides", "dilations"))
    out_pads = of(node, "output_padding", [0] * rank)
    wanted = output_shape[-rank:] if output_shape else [size * step for size, step in zip(sizes, strides, strict=True)]
    spans = [
        strides[d] * (sizes[d] - 1) + out_pads[d] + (kernel[d] - 1) * dilations[d] + 1 - wanted[d] for d in range(rank)
    ]
    if min(spans) < 0:
        if output_shape:
            return False
        raise cannot_lower(node.doc_string, f"its strides must be at most what its kernel covers for {auto}")
    halves = [(span // 2, span - span // 2) for span in spans]
    pairs = halves if auto == "SAME_UPPER" else [each[::-1] for each in halves]
    attributes = {each.name: of(node, each.name, None) for each in node.attribute if each.name not in PADS_CHOSEN}
    pads = [pair[side] for side in (0, 1) for pair in pairs]
    writer.add("ConvTranspose", *node.input, into=node.output[0], pads=pads, **attributes)
    return True


def cut_transposed(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite ConvTranspose with asymmetric pads, which torch-mlir lacks, as one without pads and a slice."""
    spatial = facts.shapes[node.input[0]][2:]
    pads, result = list(of(node, "pads", [])), facts.shapes.get(node.output[0])
    rank = len(spatial)
    is_plain = of(node, "auto_pad", "NOTSET") == "NOTSET" and not of(node, "output_shape", [])
    if pads[:rank] == pads[rank:] or result is None or not is_plain:
        return False
    attributes = {each.name: of(node, each.name, None) for each in node.attribute if each.name != "pads"}
    whole = writer.add("ConvTranspose", *node.input, **attributes)
    ends = [low + size for low, size in zip(pads, result[2:], strict=False)]
    bounds = (writer.numbers(*each) for each in (pads[:rank], ends, range(2, 2 + rank)))
    writer.add("Slice", whole, *bounds, into=node.output[0])
    return True


def shift_inside(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite BitShift for amounts outside ``[0, bits)``: a right shift leaves the sign bits, a left shift zeros."""
    x, amount = node.input
    kind = facts.kinds[x]
    bits = 8 * dtype_of(kind).itemsize
    known = facts.constants.get(amount)
    if known is not None and np.all((known >= 0) & (known < bits)):
        return False
    zero, direction = writer.number(0, kind), of(node, "direction", "")
    least = writer.add("GreaterOrEqual", amount, zero)
    inside = writer.add("And", least, writer.add("Less", amount, writer.number(bits, kind)))
    clipped = writer.add("Where", inside, amount, writer.number(bits - 1, kind))
    if direction == "RIGHT":  # a shift by bits - 1 leaves the sign in every bit
        writer.add("BitShift", x, clipped, into=node.output[0], direction=direction)
        return True
    writer.add("Where", inside, writer.add("BitShift", x, clipped, direction=direction), zero, into=node.output[0])
    return True


def scan_by_steps(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite CumProd as a parallel prefix scan with doubling steps: ``y[i - 1] y[i]``, then ``y[i - 2] y[i]``, ...

    CumSum of integers likewise. CumSum of f32 stays a loop (`payload.importers.scan_loops`); torch-mlir supports it
    forward and inclusive only, so that exclusive and reverse ones are shifted and reversed here.
    """
    x, axis_input = node.input
    exclusive, backward = bool(of(node, "exclusive", 0)), bool(of(node, "reverse", 0))
    is_loop = (node.op_type, facts.kinds[x]) == ("CumSum", FLOAT)
    if axis_input not in facts.constants or (is_loop and not exclusive and not backward):
        return False
    combine, neutral = ("Mul", 1) if node.op_type == "CumProd" else ("Add", 0)
    shape, kind = facts.shapes[x], facts.kinds[x]
    axis = int(np.reshape(facts.constants[axis_input], ())) % len(shape)

    def shifted(y: str, step: int) -> str:
        wide = [step if d == axis else size for d, size in enumerate(shape)]
        ones = writer.constant(np.full(wide, neutral, dtype_of(kind)))
        low, high = (step, shape[axis]) if backward else (0, shape[axis] - step)
        if low >= high:
            return ones
        part = writer.slice(y, low, high, axis)
        return writer.add("Concat", *((part, ones) if backward else (ones, part)), axis=axis)

    last, step = shifted(x, 1) if exclusive else x, 1
    if is_loop:
        last = writer.add("CumSum", writer.backwards(last, axis) if backward else last, axis_input)
        writer.add("Identity", writer.backwards(last, axis) if backward else last, into=node.output[0])
        return True
    while step < shape[axis]:
        last, step = writer.add(combine, last, shifted(last, step)), 2 * step
    writer.add("Identity", last, into=node.output[0])
    return True


def norm_of_one(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite norms and log-sums along axes of one element, on which torch-mlir crashes."""
    x, result = node.input[0], facts.shapes.get(node.output[0])
    if result is None or prod(result) != prod(facts.shapes[x]):
        return False
    op_type = {"ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceLogSumExp": "Identity"}[node.op_type]
    writer.reshape(writer.add(op_type, x), *result, into=node.output[0])
    return True


# Rewrites applied before the ONNX reference runs: ops it computes differently as well, and ops on integers.
FIRST: dict[str, Rewrite] = {
    "ConvTranspose": say_transposed_pads,
    "GatherElements": read_by_axis,
    "GlobalMaxPool": write_global_maximum,
    "OneHot": cast_indices,
    "Resize": resize_as_specified,
}
REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"), norm_of_one),
    "BitShift": shift_inside,
    "MatMul": multiply_vector,
    "ConvTranspose": cut_transposed,
    "CumProd": scan_by_steps,
    "CumSum": scan_by_steps,
    "Einsum": multiply_in_pairs,
    "Gemm": scale_product,
    "Gelu": gelu_by_tanh,
    "GridSample": sample,
    "LpNormalization": normalize,
    "LRN": norm_by_neighbours,
    "DepthToSpace": spread_channels,
    "SpaceToDepth": gather_channels,
    "Pad": pad_by_copies,
    "Resize": resize,
    "Softsign": bend_softly,
    "Slice": begin_inside,
    "Equal": equal_to_itself,
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), compare_with_itself),
    "Mod": remainder_towards_zero,
    "MaxPool": write_pool,
    "Where": choose_of_equals,
    **SORTS_AND_SCATTERS,
}
