"""Static shapes of ONNX models: substitution of symbolic dimensions, and shape inference."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_nodes import facts_of, of
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, ValueInfoProto

MOST = 1 << 40  # maximum number of elements of a tensor, beyond any memory


def fix_sizes(model: "ModelProto", sizes: Mapping[str, int], weights: Collection[str]) -> None:
    """Substitute symbolic dimensions by sizes, and infer all other shapes, in place.

    Raises:
        UnsupportedError: An input that is not a weight has a size that is still unknown, or a tensor is too large.
    """
    from onnx import shape_inference  # noqa: PLC0415

    graph = model.graph
    initializers = {tensor.name for tensor in graph.initializer}
    replace_all(graph.input, [tensor for tensor in graph.input if tensor.name not in initializers])
    inputs = {tensor.name for tensor in graph.input if tensor.name not in weights}
    for tensor in [*graph.input, *graph.output]:
        for index, dim in enumerate(tensor.type.tensor_type.shape.dim):
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif dim.dim_value < 1 and tensor.name in inputs:
                raise UnsupportedError(f"input {tensor.name} {broken_constraint(dim, index)}")
        if tensor.name in inputs:
            check_count("input", tensor)
    before = {v.name: v for v in map(copy.deepcopy, [*graph.value_info, *graph.output]) if has_fixed_shape(v)}
    for tensor in graph.output:
        tensor.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    while fill_gaps(inferred.graph):
        inferred = shape_inference.infer_shapes(inferred, data_prop=True)
    graph.CopyFrom(inferred.graph)
    for tensor in [*graph.value_info, *graph.output]:
        check_count("tensor", tensor)
    known = {tensor.name for tensor in [*graph.value_info, *graph.output]}
    graph.value_info.extend(v for name, v in before.items() if name not in known)  # keep the shapes from the file
    for tensor in graph.output:
        if tensor.name in before and not tensor.type.tensor_type.HasField("shape"):
            tensor.CopyFrom(before[tensor.name])


def check_count(title: str, tensor: "ValueInfoProto") -> None:
    """Raise if a tensor is too large for any memory.

    Raises:
        UnsupportedError: The tensor has more than `MOST` elements.
    """
    count = prod(dim.dim_value for dim in tensor.type.tensor_type.shape.dim)
    if count > MOST:
        raise UnsupportedError(f"{title} {tensor.name} must have at most {MOST} numbers, it has {count}; shrink it")


def fill_gaps(graph: "GraphProto") -> bool:
    """Add result shapes that ONNX's inference leaves unknown, in place; return whether there was one."""
    from onnx import helper  # noqa: PLC0415

    nodes = [node for node in graph.node if node.op_type in GAPS and not node.domain]
    if not nodes:
        return False
    shapes, kinds = (facts := facts_of(graph)).shapes, facts.kinds
    results, filled = {v.name: v for v in graph.output}, dict[str, "ValueInfoProto"]()
    for node in nodes:
        rule = GAPS[node.op_type]
        if node.output[0] in shapes or any(name not in shapes for name in node.input if name):
            continue
        shape = rule(node, [shapes[name] for name in node.input if name])
        if 0 in shape:  # 0 means unknown, so that the loop would not terminate
            continue
        filled[node.output[0]] = helper.make_tensor_value_info(node.output[0], kinds[node.input[0]], shape)
    for name in filled.keys() & results.keys():
        results[name].CopyFrom(filled[name])
    replace_all(graph.value_info, [v for v in graph.value_info if v.name not in filled])
    graph.value_info.extend(value for name, value in filled.items() if name not in results)
    return bool(filled)


def gathered(node: "NodeProto", shapes: Sequence[list[int]]) -> list[int]:
    """Return the shape of the result of GatherND."""
    data, indices = shapes
    return [*indices[:-1], *data[of(node, "batch_dims", 0) + indices[-1] :]]


def first_shape(_: "NodeProto", shapes: Sequence[list[int]]) -> list[int]:
    """Return the shape of the first input."""
    return shapes[0]


GAPS: dict[str, Callable[["NodeProto", Sequence[list[int]]], list[int]]] = {
    "GatherND": gathered,
    "GroupNormalization": first_shape,
    "MeanVarianceNormalization": first_shape,
}  # ops that ONNX's shape inference does not support in all cases


def has_fixed_shape(tensor: "ValueInfoProto") -> bool:
    """Return whether the shape of a tensor is known and static."""
    kind = tensor.type.tensor_type
    return kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim)


def broken_constraint(dim: "TensorShapeProto.Dimension", index: int) -> str:
    """Return the message about a size that is unknown, or less than 1."""
    if dim.dim_param:
        return f"must have fixed sizes, {dim.dim_param} is open; export it so, or give {dim.dim_param}=1"
    if dim.HasField("dim_value"):
        return f"must have sizes of at least 1, that of dimension {index} is {dim.dim_value}; export it without"
    return f"must have fixed sizes, that of dimension {index} is open and has no name; export it so"
