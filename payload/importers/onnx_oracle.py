"""What an ONNX model computes, as ONNX's own reference says: in float64, where that can be told."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto
    from onnx.reference import ReferenceEvaluator

# Attributes that name a dtype, by op: what a model of float64 has there is float64.
DOUBLES = {"Cast": "to", "EyeLike": "dtype"}


def evaluator_of(model: "ModelProto | NodeProto") -> "ReferenceEvaluator":
    """ONNX's reference of a model or node, with ops of ours where it is wrong."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - comes with an extra
    from onnx.reference.op_run import OpRun  # noqa: PLC0415

    class GatherElements(OpRun):  # type: ignore[misc]
        """The reference's own fails for more than 64 elements along the axis."""

        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take_along_axis(data, np.where(indices < 0, indices + data.shape[axis], indices), axis),)

    return ReferenceEvaluator(model, new_ops=[GatherElements])


def to_array(tensor: "TensorProto") -> Array:
    """Values of a tensor."""
    from onnx import numpy_helper  # noqa: PLC0415

    return np.asarray(numpy_helper.to_array(tensor))


def ask_reference(model: "ModelProto", inputs: Sequence[Mapping[str, Array]]) -> tuple[list[list[Array]], str]:
    """What ONNX's reference computes, in float64 if it can; and what that was."""
    for wide in (True, False):
        try:
            reference = evaluator_of(in_double(model) if wide else model)
            given = [
                {n: a.astype(np.float64) if wide and a.dtype.kind == "f" else a for n, a in i.items()} for i in inputs
            ]
            results = [[np.asarray(found) for found in reference.run(None, feed)] for feed in given]
            return results, f"onnx.reference in {'float64' if wide else 'float32'}"
        except Exception:  # it lacks ops, and some of its ops refuse float64
            continue
    return [], ""


def in_double(model: "ModelProto") -> "ModelProto":
    """The model in float64."""
    from onnx import TensorProto, numpy_helper  # noqa: PLC0415

    wide = copy.deepcopy(model)
    tensors = list(wide.graph.initializer)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            if attribute.name == DOUBLES.get(node.op_type) and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(to_array(tensor).astype(np.float64), tensor.name))
    for value in [*wide.graph.input, *wide.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del wide.graph.value_info[:]
    return wide
