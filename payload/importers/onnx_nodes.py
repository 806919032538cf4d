"""Writing of ONNX nodes that replace others, and the known facts about the tensors of a graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_oracle import to_array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from payload.importers.onnx_blocks import BlockWeight


@dataclass(frozen=True)
class KnownTensors:
    """Known facts about the tensors of a graph, by name.

    Attributes:
        shapes: Shapes of the tensors whose shape is known.
        kinds: Element types in TensorProto.
        constants: Values of initializers.
        version: Opset version of the standard operators.
        weights: Values of weights, which are graph inputs; a rewrite may add some.
        block_weights: Weights that stay block-quantized, which a rewrite may add to; `None` inside a subgraph.
    """

    shapes: Mapping[str, list[int]]
    kinds: Mapping[str, int]
    constants: Mapping[str, Array]
    version: int = 0
    weights: "dict[str, Array]" = field(default_factory=dict)
    block_weights: "dict[str, BlockWeight] | None" = None

    def with_graph(self, graph: "GraphProto") -> "KnownTensors":
        """Return the facts inside a subgraph of a node, which also reads tensors of the enclosing graph."""
        own = facts_of(graph)
        return KnownTensors(
            {**self.shapes, **own.shapes},
            {**self.kinds, **own.kinds},
            {**self.constants, **own.constants},
            self.version,
        )


@dataclass
class NodeWriter:
    """Writer of nodes that replace a node.

    Attributes:
        graph: Graph that constants are added to.
        stem: Prefix of generated names.
        nodes: Nodes so far.
    """

    graph: "GraphProto"
    stem: str
    nodes: "list[NodeProto]" = field(default_factory=list)

    def add(self, op: str, *inputs: str, into: str | Sequence[str] = "", **attributes: Any) -> str:  # noqa: ANN401
        """Add a node with results `into`, or a generated name; return the name of its first result."""
        from onnx import helper  # noqa: PLC0415 - comes with an extra

        names = [into or f"{self.stem}_{len(self.nodes)}"] if isinstance(into, str) else into
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def constant(self, array: Array) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper  # noqa: PLC0415

        name = f"{self.stem}_constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *values: int) -> str:
        """Add a constant list of i64; return its name."""
        return self.constant(np.array(values, np.int64))

    def real(self, values: Any) -> str:  # noqa: ANN401 - as NumPy's
        """Add a constant in f32; return its name."""
        return self.constant(np.array(values, np.float32))

    def number(self, value: float, kind: int) -> str:
        """Add a scalar constant of an element type in TensorProto; return its name."""
        return self.constant(np.array(value).astype(dtype_of(kind)))

    def reshape(self, x: str, *shape: int, into: str = "") -> str:
        """Reshape a tensor."""
        return self.add("Reshape", x, self.numbers(*shape), into=into)

    def slice(self, x: str, begin: int, end: int, axis: int, *, step: int = 1) -> str:
        """Slice a tensor along an axis."""
        bounds = (begin, end, axis) if step == 1 else (begin, end, axis, step)
        return self.add("Slice", x, *map(self.numbers, bounds))

    def backwards(self, x: str, axis: int) -> str:
        """Reverse a tensor along an axis."""
        return self.slice(x, -1, -(1 << 62), axis, step=-1)


def dtype_of(kind: int) -> "np.dtype[Any]":
    """Return the NumPy dtype of an element type in TensorProto."""
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415 - comes with an extra

    dtype: np.dtype[Any] = tensor_dtype_to_np_dtype(kind)
    return dtype


Rewrite = Callable[[NodeWriter, "NodeProto", KnownTensors], bool]  # adds replacement nodes; returns whether it applied


def facts_of(graph: "GraphProto") -> KnownTensors:
    """Return the known facts about the tensors of a graph with inferred shapes."""
    typed = {v.name: v.type.tensor_type for v in [*graph.input, *graph.value_info, *graph.output]}
    constants = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    sized = {name: kind.shape.dim for name, kind in typed.items() if kind.HasField("shape")}  # a scalar has shape []
    shapes = {name: [dim.dim_value for dim in dims] for name, dims in sized.items()}
    shapes = {name: shape for name, shape in shapes.items() if 0 not in shape}
    shapes |= {name: list(array.shape) for name, array in constants.items()}
    kinds = {name: kind.elem_type for name, kind in typed.items()}
    return KnownTensors(shapes, kinds | {tensor.name: tensor.data_type for tensor in graph.initializer}, constants)


def of(node: "NodeProto", name: str, default: Any) -> Any:  # noqa: ANN401 - of any kind
    """Return an attribute of a node, or a default."""
    from onnx.helper import get_attribute_value  # noqa: PLC0415

    value = next((get_attribute_value(each) for each in node.attribute if each.name == name), default)
    return value.decode() if isinstance(value, bytes) else value
