"""ONNX graphs under construction, and their serialization to model files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autotune.core.payload import DTYPES, Argument, Array, Payload

OPSET = 20  # the first with Gelu
IR_VERSION = 10


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX operator: its type, the names of its inputs and outputs, and its attributes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass
class OnnxGraph:
    """ONNX graph under construction; values are referred to by name.

    Attributes:
        arguments: Arrays of the payload's arguments by name, for arguments that are constants to the model.
        nodes: Operators, in topological order.
        constants: Small arrays, stored in the model.
        weights: Large arrays, passed to the session as external initializers.
        fed: Additional inputs with their values: slices of the payload's states.
        states: Additional outputs with their shapes: slices of the payload's states after a call.
    """

    arguments: Mapping[str, Array]
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    fed: dict[str, Array] = field(default_factory=dict)
    states: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 - whatever an operator takes
        """Add an operator with one output; return the output's name."""
        (output,) = self.ops(kind, inputs, 1, **attributes)
        return output

    def ops(self, kind: str, inputs: tuple[str, ...], count: int, **attributes: Any) -> tuple[str, ...]:  # noqa: ANN401
        """Add an operator with `count` outputs; return their names."""
        outputs = tuple(f"v{len(self.nodes)}_{i}" for i in range(count))
        self.nodes.append(OnnxNode(kind, inputs, outputs, attributes))
        return outputs

    def transpose(self, value: str, perm: Sequence[int]) -> str:
        """Add a Transpose; if the value is the result of another one, compose the two into one."""
        for node in self.nodes:
            if node.kind == "Transpose" and value in node.outputs:
                return self.op("Transpose", *node.inputs, perm=[node.attributes["perm"][i] for i in perm])
        return self.op("Transpose", value, perm=list(perm))

    def constant(self, value: Array | float | list[int], name: str = "") -> str:
        """Add a small constant, unless one of this name exists: a float becomes f32, a list a shape."""
        name = name or f"c{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = np.asarray(value, np.float32 if isinstance(value, float) else None)
        return name

    def feed(self, name: str, array: Array) -> str:
        """Add an input that is not an argument of the payload."""
        self.fed[name] = np.ascontiguousarray(array)
        return name

    def keep(self, value: str, shape: tuple[int, ...]) -> str:
        """Make a value an additional output; return its name."""
        self.states[value] = shape
        return value

    def finish(self, results: Mapping[str, str]) -> None:
        """Rename values to the payload's outputs, and eliminate dead operators.

        Args:
            results: New names of values, by old name.
        """
        needed, live = {*results, *self.states}, []
        for node in reversed(self.nodes):
            if needed & {*node.outputs}:
                needed |= {*node.inputs}
                inputs, outputs = (tuple(results.get(n, n) for n in names) for names in (node.inputs, node.outputs))
                live.append(replace(node, inputs=inputs, outputs=outputs))
        self.nodes = live[::-1]


def serialize(g: OnnxGraph, payload: Payload) -> bytes:
    """Serialize the graph as a model; weights are external data, so that models stay below protobuf's 2 GB limit."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - comes with an extra

    def declare(argument: Argument) -> Any:  # noqa: ANN401 - protobuf's own class
        kind = helper.np_dtype_to_tensor_dtype(DTYPES[argument.dtype])
        return helper.make_tensor_value_info(argument.name, kind, argument.shape)

    def external(name: str, array: Array) -> Any:  # noqa: ANN401
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = TensorProto(name=name, dims=array.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", name), ("offset", "0"), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
        return tensor

    inputs = [argument for argument in payload.arguments if argument.role == "input"]
    graph = helper.make_graph(
        [helper.make_node(n.kind, n.inputs, n.outputs, **n.attributes) for n in g.nodes],
        payload.entry,
        [*map(declare, inputs), *(declare(Argument(n, "input", array.shape)) for n, array in g.fed.items())],
        [*map(declare, payload.outputs), *(declare(Argument(n, "output", shape)) for n, shape in g.states.items())],
        [
            *(numpy_helper.from_array(array, name) for name, array in g.constants.items()),
            *(external(name, array) for name, array in g.weights.items()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return bytes(model.SerializeToString())
