"""Sizes of the tensors of an ONNX model: all of them fixed, and inferred from those of its inputs."""

import copy
from collections.abc import Collection, Mapping
from math import prod
from typing import TYPE_CHECKING

from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, TensorShapeProto, ValueInfoProto

MOST = 1 << 40  # numbers of an input: more than any memory holds


def fix_sizes(model: "ModelProto", sizes: Mapping[str, int], weights: Collection[str]) -> None:
    """Put sizes in the place of names of dimensions, and infer all other shapes, in place.

    Raises:
        UnsupportedError: An input that is no weight is left with a size that is not known.
    """
    from onnx import shape_inference  # noqa: PLC0415

    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    replace_all(graph.input, [tensor for tensor in graph.input if tensor.name not in held])
    asked = {tensor.name for tensor in graph.input if tensor.name not in weights}
    for tensor in [*graph.input, *graph.output]:
        for index, dim in enumerate(tensor.type.tensor_type.shape.dim):
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif dim.dim_value < 1 and tensor.name in asked:
                raise UnsupportedError(f"input {tensor.name} {broken_constraint(dim, index)}")
        if tensor.name in asked and (count := prod(d.dim_value for d in tensor.type.tensor_type.shape.dim)) > MOST:
            raise UnsupportedError(f"input {tensor.name} must have at most {MOST} numbers, it has {count}; shrink it")
    before = {v.name: v for v in map(copy.deepcopy, [*graph.value_info, *graph.output]) if has_fixed_shape(v)}
    for tensor in graph.output:
        tensor.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    graph.CopyFrom(inferred.graph)
    known = {tensor.name for tensor in graph.value_info}  # what cannot be inferred is as the file has it
    graph.value_info.extend(v for name, v in before.items() if name not in known | {v.name for v in graph.output})
    for tensor in graph.output:
        if tensor.name in before and not tensor.type.tensor_type.HasField("shape"):
            tensor.CopyFrom(before[tensor.name])


def has_fixed_shape(tensor: "ValueInfoProto") -> bool:
    """Return whether the file has a shape for a tensor, and no size of it is open."""
    kind = tensor.type.tensor_type
    return kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim)


def broken_constraint(dim: "TensorShapeProto.Dimension", index: int) -> str:
    """What is wrong with a size that is not known, or less than 1."""
    if dim.dim_param:
        return f"must have fixed sizes, {dim.dim_param} is open; export it so, or give {dim.dim_param}=1"
    if dim.HasField("dim_value"):
        return f"must have sizes of at least 1, that of dimension {index} is {dim.dim_value}; export it without"
    return f"must have fixed sizes, that of dimension {index} is open and has no name; export it so"
