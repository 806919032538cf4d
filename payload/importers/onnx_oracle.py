"""Evaluation of ONNX models with ONNX's own reference evaluator, in float64 where it supports that."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

# Attributes that name a dtype, by op, which are changed to float64 along with the model.
DOUBLES = {"Cast": "to", "EyeLike": "dtype"}
NARROW = ("float16", "bfloat16", "float32")
FATAL_ONLY = 4  # severity of what ONNX Runtime logs


def to_array(tensor: "TensorProto") -> Array:
    """Return the values of a tensor."""
    from onnx import numpy_helper  # noqa: PLC0415 - comes with an extra

    return np.asarray(numpy_helper.to_array(tensor))


def ask_reference(
    model: "ModelProto", weights: Mapping[str, Array], inputs: Sequence[Mapping[str, Array]], *, wide: bool = True
) -> tuple[list[list[Array]], str]:
    """Compute a model with ONNX's reference, in float64 if possible; return the results and the oracle's name.

    If the reference alone cannot compute the model, nodes that it lacks or rejects, such as QuantizeLinear before
    version 19, are computed by ONNX Runtime if installed.

    Args:
        model: Model whose inputs include `weights`.
        weights: Arrays that are the same in every call, by name.
        inputs: Other inputs of every call, by name.
        wide: Whether to try float64; models that round to integers define their rounding in float32.
    """
    helpers = (False, True) if find_spec("onnxruntime") else (False,)
    for helped, doubles in product(helpers, (True, False) if wide else (False,)):
        try:
            results = [compute(model, {**weights, **arrays}, wide=doubles, helped=helped) for arrays in inputs]
        except Exception:  # the reference lacks ops, and some of its ops reject float64
            continue
        name = f"onnx.reference in {'float64' if doubles else 'float32'}"
        return results, f"{name} and onnxruntime" if helped else name
    return [], ""


def compute(model: "ModelProto", inputs: Mapping[str, Array], *, wide: bool, helped: bool = False) -> list[Array]:
    """Compute a model node by node; dead values are freed, and weights are widened one at a time to save memory.

    Args:
        model: Model to compute.
        inputs: Inputs, by name.
        wide: Whether floats are computed in float64.
        helped: Whether ONNX Runtime computes the nodes that the reference cannot.
    """
    graph = model.graph
    fixed = {**inputs, **{tensor.name: to_array(tensor) for tensor in graph.initializer}}
    results = [output.name for output in graph.output]
    last = {name: number for number, node in enumerate(graph.node) for name in inputs_of(node)}
    live: dict[str, Array] = {}
    for number, node in enumerate(graph.node):
        names = [name for name in dict.fromkeys(inputs_of(node)) if name in live or name in fixed]
        read = {name: live[name] if name in live else widened(fixed[name], wide=wide) for name in names}
        outputs = [name for name in node.output if name]
        try:
            values = compute_node(model, node, read, wide=wide)
        except Exception:  # the reference lacks the op or rejects its inputs
            if not helped:
                raise
            values = [widened(array, wide=wide) for array in run_node(model, node, read)]
        live.update(zip(outputs, values, strict=True))
        for name in [*read, *outputs]:
            if last.get(name, number) <= number and name not in results:
                live.pop(name, None)
    return [live[name] if name in live else widened(fixed[name], wide=wide) for name in results]


def widened(array: Array, *, wide: bool) -> Array:
    """Convert floats to float64, if requested."""
    return array.astype(np.float64) if wide and array.dtype.name in NARROW else np.asarray(array)


def compute_node(
    model: "ModelProto", node: "NodeProto", read: Mapping[str, Array], *, wide: bool = False
) -> list[Array]:
    """Compute one node of a model with the reference.

    Args:
        model: Model with the opset versions and the functions to use.
        node: Node to compute.
        read: Inputs of the node and of its subgraphs, by name.
        wide: Whether tensors and dtypes in its attributes are changed to float64.

    Raises:
        Exception: The reference lacks the op or rejects its inputs.
    """
    from onnx import ValueInfoProto, helper  # noqa: PLC0415 - comes with an extra
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

    inputs, outputs = ([ValueInfoProto(name=name) for name in names if name] for names in (read, node.output))
    graph = helper.make_graph([node], "node", inputs, outputs)
    if wide:
        name_doubles(graph.node[0])
    versions = {opset.domain: opset.version for opset in model.opset_import}
    reference = ReferenceEvaluator(graph, versions, list(model.functions), new_ops=list(own_ops()))
    return [np.asarray(output) for output in reference.run(None, dict(read))]


@cache
def own_ops() -> tuple[type, ...]:
    """Return replacements of ops that the reference computes incorrectly, or too slowly."""
    from onnx.reference.op_run import OpRun  # noqa: PLC0415 - comes with an extra
    from onnx.reference.ops.op_conv_transpose import ConvTranspose as GivenTransposed  # noqa: PLC0415

    class AveragePool(OpRun):  # type: ignore[misc]
        """Vectorized AveragePool: the reference loops over windows in Python, half of DenseNet-121's import time."""

        def _run(self, x: Array, **_: Any) -> tuple[Array]:  # noqa: ANN401 - what the node says
            from payload.importers.onnx_pools import means_of_windows  # noqa: PLC0415 - which builds on this module

            return (means_of_windows(self.onnx_node, x),)

    class GatherElements(OpRun):  # type: ignore[misc]
        """GatherElements for any size: the reference fails for more than 64 elements along the axis."""

        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take_along_axis(data, np.where(indices < 0, indices + data.shape[axis], indices), axis),)

    class LRN(OpRun):  # type: ignore[misc]
        """LRN over channels: the reference uses the number of images as the number of channels."""

        def _run(self, x: Array, alpha: float, beta: float, bias: float, size: int) -> tuple[Array]:
            before, behind = (size - 1) // 2, size // 2
            squares = np.pad(x**2, ((0, 0), (before, behind), *[(0, 0)] * (x.ndim - 2)))
            total = sum(squares[:, first : first + x.shape[1]] for first in range(size))
            return (x / (bias + alpha / size * total) ** beta,)

    class LpNormalization(OpRun):  # type: ignore[misc]
        """LpNormalization with absolute values: the reference sums signed values if p is 1."""

        def _run(self, x: Array, axis: int = -1, p: int = 2) -> tuple[Array]:
            norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
            return (x / np.where(norm == 0, 1, norm),)

    class MaxPool(OpRun):  # type: ignore[misc]
        """MaxPool with correct asymmetric pads, indices and integer padding, which the reference computes wrongly."""

        def _run(self, x: Array, **_: Any) -> tuple[Array, ...]:  # noqa: ANN401 - what the node says
            from payload.importers.onnx_pools import largest_in_windows  # noqa: PLC0415 - which builds on this module

            return largest_in_windows(self.onnx_node, x)[: len(self.onnx_node.output)]

    class ConvTranspose(GivenTransposed):  # type: ignore[misc]
        """ConvTranspose by groups: the reference supports one filter per group and applies the first group's bias."""

        def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:  # noqa: ANN401
            group = attributes.get("group") or 1
            biases = [None] * group if b is None else np.split(b, group)
            parts = zip(np.split(x, group, axis=1), np.split(w, group), biases, strict=True)
            results = [GivenTransposed._run(self, *part, **{**attributes, "group": 1})[0] for part in parts]
            return (np.concatenate(results, axis=1),)

    return (AveragePool, ConvTranspose, GatherElements, LRN, LpNormalization, MaxPool)


def run_node(model: "ModelProto", node: "NodeProto", read: Mapping[str, Array]) -> list[Array]:
    """Compute one node of a model with ONNX Runtime, in float32.

    Args:
        model: Model with the opset versions to use.
        node: Node to compute.
        read: Inputs of the node and of its subgraphs, by name; float64 is rounded to float32.

    Raises:
        Exception: ONNX Runtime lacks the op or rejects its inputs.
    """
    from onnx import ValueInfoProto, helper  # noqa: PLC0415 - comes with an extra

    feeds = {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in read.items()}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    graph = helper.make_graph([node], "node", inputs, [ValueInfoProto(name=name) for name in node.output if name])
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return [np.asarray(array) for array in open_session(single.SerializeToString()).run(None, feeds)]


def open_session(model: str | bytes) -> Any:  # noqa: ANN401 - of a library without types
    """Open a single-threaded session on a model, a file or its bytes, without graph optimizations."""
    import onnxruntime as ort  # noqa: PLC0415 - comes with an extra

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = FATAL_ONLY
    options.add_session_config_entry("session.disable_prepacking", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def name_doubles(node: "NodeProto") -> None:
    """Change float32 in attributes of a node and of its subgraphs to float64, in place."""
    from onnx import TensorProto, numpy_helper  # noqa: PLC0415

    for attribute in node.attribute:
        inner = [attribute.g, *attribute.graphs]
        for tensor in [attribute.t, *(tensor for graph in inner for tensor in graph.initializer)]:
            if tensor.data_type == TensorProto.FLOAT:
                tensor.CopyFrom(numpy_helper.from_array(to_array(tensor).astype(np.float64), tensor.name))
        if attribute.name == DOUBLES.get(node.op_type) and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        for nested in (node for graph in inner for node in graph.node):
            name_doubles(nested)


def inputs_of(node: "NodeProto") -> Iterator[str]:
    """Yield the names that a node reads, including those read by its subgraphs."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for inner in [attribute.g, *attribute.graphs]:
            for nested in inner.node:
                yield from inputs_of(nested)
