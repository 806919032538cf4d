"""Verification of the attributes and constant inputs of an ONNX model's nodes before anything is computed.

Neither ONNX's checker nor its shape inference checks most of them, and its reference deviates for some; with invalid
ones, torch-mlir divides by zero, loops forever, or reads past the end of a shape.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError, cannot_lower
from payload.importers.onnx_nodes import KnownTensors, facts_of, of
from payload.importers.onnx_sizes import MOST

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

# Minimum value of an attribute, for every op that has it.
LEAST: Mapping[str, int] = {
    "blocksize": 1,
    "dilations": 1,
    "group": 1,
    "hidden_size": 1,
    "kernel_shape": 1,
    "kv_num_heads": 1,
    "num_groups": 1,
    "num_heads": 0,
    "num_outputs": 1,
    "output_height": 1,
    "output_shape": 1,
    "output_width": 1,
    "p": 1,
    "pads": 0,
    "pooled_shape": 1,
    "q_num_heads": 1,
    "sampling_ratio": 0,
    "size": 1,
    "strides": 1,
}
# Position of the input that holds sizes or amounts added to sizes, by op.
SIZES: Mapping[str, int] = {
    **dict.fromkeys(("AffineGrid", "CenterCropPad", "Expand", "Pad", "Tile"), 1),
    "ConstantOfShape": 0,
    "Resize": 3,
}
DIVISORS: Mapping[str, int] = {"Div": 1, "Mod": 1, "Range": 2, "Slice": 4}  # position of the nonzero input, by op
RANGE = 3  # number of inputs of Range: start, end and step
CUTS = "Pad"  # the op whose pads may be negative, which crops
KERNEL = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}  # position of the kernel input, by op
WINDOWED = (*KERNEL, "AveragePool", "LpPool", "MaxPool")
PER_DIMENSION = ("dilations", "kernel_shape", "output_padding", "output_shape", "strides")
FLATTEN, REDUCE, UNSQUEEZE = "Flatten", "Reduce", "Unsqueeze"  # the axis of Flatten may equal the rank
BATCH = 2  # leading dimensions that are not spatial: batch and channels
# Ops with axes of their first input: the attributes that hold the axes, and by how much the rank is extended.
AXIS: Mapping[str, tuple[tuple[str, ...], int]] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "Compress", "Concat", "Hardmax", "LayerNormalization"), (("axis",), 0)),
    **dict.fromkeys(("Gather", "GatherElements", "ScatterElements", "TopK", "Unique"), (("axis",), 0)),
    **dict.fromkeys(("LogSoftmax", "LpNormalization", "Softmax", "Split"), (("axis",), 0)),
    **dict.fromkeys(
        ("CenterCropPad", "MeanVarianceNormalization", "Resize", "Slice", "Squeeze", UNSQUEEZE), (("axes",), 0)
    ),
    FLATTEN: (("axis",), 0),
    "OneHot": (("axis",), 1),
    "ReverseSequence": (("batch_axis", "time_axis"), 0),
}
AXES_AT: Mapping[str, int] = {"CumProd": 1, "CumSum": 1, "Pad": 3, "Slice": 3, "Squeeze": 1, UNSQUEEZE: 1}  # an input
INDEXED = ("Gather", "GatherElements", "ScatterElements")  # ops with indices along their axis
PLACED = ("GatherND", "ScatterND")  # ops with indices into several dimensions
CLASSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")  # ops with indices into the second dimension
MOST_NODES = 1 << 15  # of a graph: time and memory of torch-mlir grow faster than their number, here it takes minutes
MOST_EQUATION = 60  # letters in a message
MOST_NUMBERS = 6  # numbers of a list in a message


def check_all(graph: "GraphProto") -> None:
    """Raise unless all nodes of a graph with inferred shapes are valid, and their number is at most `MOST_NODES`.

    Raises:
        UnsupportedError: A node is invalid, which the message names, or there are more than `MOST_NODES`.
    """
    if len(graph.node) > MOST_NODES:
        raise UnsupportedError(
            f"it must have at most {MOST_NODES} nodes once constants are computed, it has {len(graph.node)}; "
            "import parts of it"
        )
    known = facts_of(graph)
    for node in graph.node:
        check_attributes(node, known)
        if node.op_type == "Unique" and not node.domain:  # torch-mlir reads an axis as if it were no number
            raise cannot_lower(node.doc_string, "how many elements there are depends on data")


def check_attributes(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless attributes, axes and constant indices of a node are valid for its op.

    Args:
        node: Node to verify.
        known: Shapes, types and constants of the tensors of its graph.

    Raises:
        UnsupportedError: The node is invalid; the message names it.
    """
    check_least(node)
    check_sizes(node, known)
    check_divisors(node, known)
    if node.op_type == "Range":
        check_range(node, known)
    if node.op_type == "Einsum":
        check_equation(node, known)
    shape = known.shapes.get(node.input[0]) if node.input else None
    if shape is None or node.domain:
        return
    if node.op_type in WINDOWED:
        check_windows(node, shape)
    if node.op_type in KERNEL:
        check_kernel(node, shape, known)
    check_axes(node, shape, known)
    check_indices(node, shape, known)
    check_counts(node, shape, known)


def wrong(node: "NodeProto", attribute: str, constraint: str, value: Any) -> UnsupportedError:  # noqa: ANN401 - numbers
    """Return the error about an invalid attribute or input of a node."""
    shown = value[:MOST_NUMBERS] + ([".."] if len(value) > MOST_NUMBERS else []) if isinstance(value, list) else value
    return UnsupportedError(
        f"{node.doc_string} must have {attribute} {constraint}, got {shown}; export the model again"
    )


def check_least(node: "NodeProto") -> None:
    """Raise unless attributes that sizes are computed from are between their minimum and `MOST`."""
    for each in node.attribute:
        least = LEAST.get(each.name)
        if least is None or (each.name == "pads" and node.op_type == CUTS):
            continue
        value = of(node, each.name, None)
        numbers = value if isinstance(value, list) else [value]
        if not all(isinstance(number, (int, float)) and least <= number <= MOST for number in numbers):
            raise wrong(node, each.name, f"from {least} to {MOST}", value)


def check_sizes(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless sizes in a constant input are at most `MOST`: ONNX's shape inference overflows 64 bits."""
    at = SIZES.get(node.op_type)
    name = node.input[at] if at is not None and at < len(node.input) else ""
    sizes = known.constants.get(name)
    if sizes is None or sizes.dtype.kind not in "iu" or node.domain:
        return
    if node.op_type == "Tile" and sizes.min(initial=1) < 1:
        raise wrong(node, f"numbers in {name}", "of at least 1", sizes.tolist())
    beyond = sizes[(sizes > MOST) | (sizes < -MOST)]
    if beyond.size:
        raise wrong(node, f"numbers in {name}", f"of at most {MOST}", beyond.tolist())


def check_windows(node: "NodeProto", shape: Sequence[int]) -> None:
    """Raise unless per-dimension attributes have one number for every spatial dimension, and pads have two."""
    count = len(shape) - BATCH
    for name in (*PER_DIMENSION, "pads"):
        value = of(node, name, None)
        expected = 2 * count if name == "pads" else count
        allowed = (expected, len(shape)) if name == "output_shape" else (expected,)
        if value is not None and len(value) not in allowed:
            raise wrong(node, name, f"of {expected} numbers", value)


def check_kernel(node: "NodeProto", shape: Sequence[int], known: KnownTensors) -> None:
    """Raise unless a convolution's kernel matches its input and its groups."""
    kernel, group = known.shapes.get(node.input[KERNEL[node.op_type]]), int(of(node, "group", 1))
    if kernel is None:
        return
    if len(kernel) != len(shape):
        raise wrong(node, "a kernel", f"of {len(shape)} dimensions as its input has", kernel)
    kernel_shape = of(node, "kernel_shape", kernel[BATCH:])
    if list(kernel_shape) != list(kernel[BATCH:]):
        raise wrong(node, "kernel_shape", f"{list(kernel[BATCH:])} as its kernel is", list(kernel_shape))
    if node.op_type == "ConvTranspose":
        fits = kernel[0] == shape[1] and shape[1] % group == 0
    else:
        fits = kernel[1] * group == shape[1] and kernel[0] % group == 0
    if not fits:
        constraint = f"for the {shape[1]} channels of its input"
        raise wrong(node, "a kernel and a group", constraint, f"{list(kernel)} and {group}")


def check_axes(node: "NodeProto", shape: Sequence[int], known: KnownTensors) -> None:
    """Raise unless the axes of a node are in range, and a permutation is one."""
    names, more = AXIS.get(node.op_type, (("axes",) if node.op_type.startswith(REDUCE) else (), 0))
    stated = [(name, of(node, name, None)) for name in names]
    at = 1 if node.op_type.startswith(REDUCE) else AXES_AT.get(node.op_type)
    if at is not None and at < len(node.input):
        stated.append(("axes", known.constants.get(node.input[at])))
    for name, value in stated:
        axes = [] if value is None else [int(each) for each in np.reshape(value, -1)]
        rank = len(shape) + (len(axes) if node.op_type == UNSQUEEZE else more)
        if any(not -rank <= axis < rank + (node.op_type == FLATTEN) for axis in axes):
            raise wrong(node, name, f"of {rank} dimensions, from {-rank} to {rank - 1}", axes)
    perm = of(node, "perm", None) if node.op_type == "Transpose" else None
    if perm is not None and sorted(perm) != list(range(len(shape))):
        raise wrong(node, "perm", f"that holds each of {len(shape)} dimensions once", list(perm))


def check_indices(node: "NodeProto", shape: Sequence[int], known: KnownTensors) -> None:
    """Raise unless constant indices are in the range of the dimension they index."""
    indices = known.constants.get(node.input[1]) if len(node.input) > 1 else None
    if indices is None or not indices.size:
        return
    if node.op_type in INDEXED:
        sizes = np.array(shape[int(of(node, "axis", 0))])
    elif node.op_type in CLASSES:
        left_out = of(node, "ignore_index", None)
        sizes = np.array(shape[1])
        indices = indices if left_out is None else indices[indices != left_out]
    elif node.op_type == "ReverseSequence":
        sizes = np.array(shape[int(of(node, "time_axis", 0))] + 1)
    elif node.op_type in PLACED:
        first = int(of(node, "batch_dims", 0))
        sizes = np.array(shape[first : first + indices.shape[-1]])
        if sizes.shape != indices.shape[-1:]:
            raise wrong(node, "indices", f"in at most {len(shape) - first} dimensions", list(indices.shape))
    else:
        return
    counts_back = node.op_type in (*INDEXED, *PLACED)
    outside = indices[(indices < (-sizes if counts_back else 0)) | (indices >= sizes)]
    if outside.size:
        raise wrong(node, "indices", f"inside of {sizes.tolist()} elements", outside.tolist())


def check_divisors(node: "NodeProto", known: KnownTensors) -> None:
    """Raise for integer division by a constant 0, and for steps of 0."""
    at = DIVISORS.get(node.op_type)
    name = node.input[at] if at is not None and at < len(node.input) else ""
    divisors = known.constants.get(name)
    if divisors is not None and divisors.dtype.kind in "iu" and not np.all(divisors):
        raise wrong(node, f"numbers in {name}", "other than 0", divisors.reshape(-1).tolist())


def check_range(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless a Range with constant bounds has at most `MOST` elements."""
    bounds = [known.constants.get(name) for name in node.input]
    numbers = [float(np.reshape(each, -1)[0]) for each in bounds if each is not None and each.size == 1]
    if len(numbers) == RANGE and not abs(numbers[1] - numbers[0]) <= MOST * abs(numbers[2]):
        raise wrong(node, "bounds", f"of at most {MOST} steps", numbers)


def check_equation(node: "NodeProto", known: KnownTensors) -> None:
    """Raise unless the equation of an Einsum names every dimension of every input."""
    equation = "".join(str(of(node, "equation", "")).split())
    terms = equation.partition("->")[0].split(",")
    ranks = [len(known.shapes[name]) if name in known.shapes else None for name in node.input]
    fits = len(terms) == len(ranks)
    for term, rank in zip(terms, ranks, strict=False):
        fits = fits and ("..." in term or rank in (None, len(term)))
    if not fits:
        raise wrong(node, "an equation", f"of inputs of {ranks} dimensions", repr(one_line(equation)[:MOST_EQUATION]))


def check_counts(node: "NodeProto", shape: Sequence[int], known: KnownTensors) -> None:
    """Raise unless counts and block sizes of a node match its channels, elements and results."""
    if node.op_type == "TopK":
        count = known.constants.get(node.input[1]) if len(node.input) > 1 else of(node, "k", None)
        size = shape[int(of(node, "axis", -1))]
        if count is not None and not 1 <= int(np.reshape(count, ())) <= size:
            raise wrong(node, "k", f"from 1 to the {size} elements of its axis", int(np.reshape(count, ())))
    if node.op_type == "LRN" and of(node, "size", 1) > 2 * shape[1]:
        raise wrong(node, "size", f"of at most twice its {shape[1]} channels", of(node, "size", 1))
    block = int(of(node, "blocksize", 1))
    if node.op_type == "DepthToSpace" and shape[1] % block**2:
        raise wrong(node, "blocksize", f"whose square divides its {shape[1]} channels", block)
    if node.op_type == "SpaceToDepth" and any(size % block for size in shape[BATCH:]):
        raise wrong(node, "blocksize", f"that divides {list(shape[BATCH:])}", block)
    if node.op_type == "Split" and (count := of(node, "num_outputs", None)) is not None and count != len(node.output):
        raise wrong(node, "num_outputs", f"of its {len(node.output)} results", count)
