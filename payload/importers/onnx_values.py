"""Constant folding of ONNX models, extraction of weights, and bounds of index tensors."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array
from payload.importers.folder import is_arranged
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_nodes import facts_of, of
from payload.importers.onnx_oracle import compute_node, inputs_of, to_array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_RANK = 16  # maximum number of sizes of a shape that are examined
MOST_FOLDED = 1 << 22  # maximum elements of a folded constant that is larger than its inputs
# Inputs that parametrize an op like attributes, by op; converters need their values.
SETTINGS: Mapping[str, tuple[int, ...]] = {
    "Clip": (1, 2),
    "Pad": (1, 2, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Dropout": (1, 2),
    "OneHot": (1,),
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
}

# Ops that index their first input by their second, with the indexed dimension; `None` if an attribute holds it.
INDEXED: Mapping[str, int | None] = {
    "Gather": None,
    "GatherElements": None,
    "GatherND": 0,
    "ScatterElements": None,
    "ScatterND": 0,
    "ReverseSequence": None,
    "NegativeLogLikelihoodLoss": 1,
    "SoftmaxCrossEntropyLoss": 1,
}
OF_SHAPES = ("Shape", "Size")  # ops that depend on the shape of a tensor only
SEVERAL = ("GatherND", "ScatterND")  # ops with indices into several dimensions
WHOLE = (2, 3, 4, 5, 6, 7, 12, 13)  # integer element types in TensorProto


def fold_constants(model: "ModelProto", weights: dict[str, Array]) -> bool:
    """Fold nodes that depend on no input, in place: masks, positions, shapes and rotary angles become initializers.

    Args:
        model: Model with inferred shapes.
        weights: Weights extracted from the model; unused ones are removed.

    Returns:
        Whether any node was folded, after which more shapes may be inferred.
    """
    from onnx import numpy_helper  # noqa: PLC0415 - comes with an extra

    graph = model.graph
    facts = facts_of(graph)
    known = {**weights, **facts.constants}
    shapes = {name: of_shape(name, shape) for name, shape in facts.shapes.items()}
    left, folded = list["NodeProto"](), dict[str, Array]()
    unread = Counter(name for node in graph.node for name in inputs_of(node)) + Counter(o.name for o in graph.output)
    for node in graph.node:
        read = shapes if node.op_type in OF_SHAPES and not node.domain else known
        values = fold(model, node, read, weights) if is_foldable(node, read) else None
        if values is None:
            left.append(node)
            continue
        results = dict(zip((name for name in node.output if name), values, strict=True))
        folded |= results
        known |= results
        unread.subtract(inputs_of(node))
        for name in inputs_of(node):
            if name in folded and not unread[name]:  # free it: intermediates of dequantization are large
                del folded[name], known[name]
    is_any = len(left) < len(graph.node)
    used = {name for node in left for name in inputs_of(node)} | {output.name for output in graph.output}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    initializers += [numpy_helper.from_array(value, name) for name, value in folded.items() if name in used]
    inputs = [tensor for tensor in graph.input if tensor.name in used or tensor.name not in weights]
    for name in weights.keys() - used:
        del weights[name]
    replace_all(graph.node, left)
    replace_all(graph.initializer, initializers)
    replace_all(graph.input, inputs)
    return is_any


def of_shape(name: str, shape: Sequence[int]) -> Array:
    """Return an array of a shape that is broadcast from one element in memory.

    Raises:
        UnsupportedError: The shape is invalid: a size is negative, as for a window larger than its input, or too large.
    """
    try:
        return np.broadcast_to(np.float32(0), shape)
    except ValueError as error:
        raise UnsupportedError(
            f"sizes of tensor {name} must be such as arrays have, they are {list(shape)[:MOST_RANK]}; choose others"
        ) from error


def replace_all(field: Any, values: Iterable[Any]) -> None:  # noqa: ANN401 - a repeated field of protobuf
    """Replace the contents of a repeated field by values, which may come from the field itself."""
    fresh = list(values)
    del field[:]
    field.extend(fresh)


def is_foldable(node: "NodeProto", known: Mapping[str, Array]) -> bool:
    """Return whether all inputs of a node are known, and the node is deterministic."""
    random = node.op_type.startswith(("Random", "Multinomial", "Bernoulli"))
    nested = any(attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute)
    return not random and not nested and all(not name or name in known for name in node.input)


def fold(
    model: "ModelProto", node: "NodeProto", known: Mapping[str, Array], weights: Mapping[str, Array]
) -> list[Array] | None:
    """Evaluate a node with known inputs; return `None` if it cannot be, or if the result would duplicate a weight."""
    inputs = {name: known[name] for name in node.input if name}
    most = max([MOST_FOLDED, *(array.size for name, array in inputs.items() if name not in weights)])
    try:
        if requested_size(node, [inputs.get(name) for name in node.input]) > most:
            return None
        values = compute_node(model, node, inputs)
    except Exception:  # the reference may lack the op or reject a dtype: then the node stays
        return None
    return values if all(value.size <= most for value in values) else None


def requested_size(node: "NodeProto", inputs: Sequence[Array | None]) -> float:
    """Return the number of result elements that a node's inputs request; 0 for ops whose inputs request no size.

    Args:
        node: Node to examine.
        inputs: Values of its inputs, in order; `None` for an omitted one.
    """
    numbers = [[float(number) for number in value.flat[:MOST_RANK]] if value is not None else [] for value in inputs]
    if node.op_type == "Range":
        (start,), (end,), (step,) = numbers
        return (end - start) / step
    if node.op_type == "ConstantOfShape":
        return prod(numbers[0])
    if node.op_type in ("Expand", "Tile") and inputs[0] is not None:
        return inputs[0].size * prod(numbers[1]) if node.op_type == "Tile" else prod(numbers[1])
    return 0.0


def check_tensors(graph: "GraphProto") -> None:
    """Raise unless inputs, outputs and initializers have printable names, and initializers are dense.

    Raises:
        UnsupportedError: A name is not printable, or an initializer is sparse.
    """
    for tensor in [*graph.input, *graph.output, *graph.initializer]:
        if not tensor.name.isprintable():
            raise UnsupportedError(f"names of inputs, outputs and weights must be printable, got {tensor.name[:200]!r}")
    for tensor in graph.sparse_initializer:
        raise UnsupportedError(f"initializer {tensor.values.name[:200]} must be dense, it is sparse; export it so")


def take_weights(graph: "GraphProto", mapped: Mapping[str, Array] = MappingProxyType({})) -> dict[str, Array]:
    """Extract the initializers that are weights, in place: they become inputs after the others.

    Args:
        graph: Graph to change.
        mapped: Values of weights in external files, by name.
    """
    from onnx import helper  # noqa: PLC0415

    names = set(weights_of(graph))
    tensors = [tensor for tensor in graph.initializer if tensor.name in names]
    inputs = [tensor for tensor in graph.input if tensor.name not in names]  # old models list weights there too
    inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors]
    values = {t.name: mapped[t.name] if t.name in mapped else to_array(t) for t in tensors}
    replace_all(graph.input, inputs)
    replace_all(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in names])
    return values


def weights_of(graph: "GraphProto") -> list[str]:
    """Return the names of the initializers that are weights: arguments of the payload, not constants of its text."""
    # float, bool, float16, double, bfloat16; torch-mlir writes constants of bool as bytes, which MLIR reads as bits
    kinds, settings = {1, 9, 10, 11, 16}, settings_of(graph)
    return [t.name for t in graph.initializer if t.data_type in kinds and len(t.dims) > 0 and t.name not in settings]


def settings_of(graph: "GraphProto") -> set[str]:
    """Return the names of the tensors that parametrize ops like attributes."""
    return {
        node.input[position]
        for node in graph.node
        for position in SETTINGS.get(node.op_type, ())
        if position < len(node.input)
    }


def give_settings_back(graph: "GraphProto", weights: dict[str, Array]) -> None:
    """Turn weights that parametrize an op back into initializers, in place."""
    from onnx import numpy_helper  # noqa: PLC0415

    names = settings_of(graph) & weights.keys()
    graph.initializer.extend(numpy_helper.from_array(weights.pop(name), name) for name in sorted(names))
    replace_all(graph.input, [tensor for tensor in graph.input if tensor.name not in names])


def kernels_of(graph: "GraphProto", weights: Mapping[str, Array]) -> dict[str, int]:
    """Return the groups of each weight that is only used as a kernel of 1-D or 2-D convolutions."""
    groups_by_name = dict[str, set[int]]()
    for node in graph.node:
        for index, name in enumerate(node.input):
            is_kernel = (node.op_type, index) == ("Conv", 1) and name in weights
            groups = of(node, "group", 1) if is_kernel else 0
            arranged = is_kernel and is_arranged(weights[name].shape, groups)
            groups_by_name.setdefault(name, set()).add(groups if arranged else 0)
    return {name: groups for name, (groups, *others) in groups_by_name.items() if groups and not others}


def index_bounds(graph: "GraphProto", shapes: Mapping[str, list[int]], kinds: Mapping[str, int]) -> dict[str, int]:
    """Return the exclusive upper bound of every index tensor; bounds are propagated to the tensors it is computed from.

    Args:
        graph: Graph to examine.
        shapes: Shapes of its tensors, by name.
        kinds: Element types in TensorProto, by name.
    """
    bounds: dict[str, int] = {}
    for node in reversed(graph.node):
        size = indexed(node, shapes)
        if size is not None:
            bounds[node.input[1]] = min(size, bounds.get(node.input[1], size))
            continue
        sizes = [bounds[name] for name in node.output if name in bounds]
        for name in inputs_of(node) if sizes else ():
            if kinds.get(name) in WHOLE:
                bounds[name] = min(*sizes, bounds.get(name, sizes[0]))
    return bounds


def indexed(node: "NodeProto", shapes: Mapping[str, list[int]]) -> int | None:
    """Return the size of the dimension that a node indexes by its second input; `None` for other nodes."""
    shape = shapes.get(node.input[0]) if len(node.input) > 1 else None
    if not shape or node.op_type not in INDEXED:
        return None
    axis = INDEXED[node.op_type]
    if axis is None:
        axis = next((a.i for a in node.attribute if a.name in ("axis", "time_axis")), 0)
    return min(shape) if node.op_type in SEVERAL else shape[min(axis, len(shape) - 1)]
