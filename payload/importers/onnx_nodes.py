"""Nodes of an ONNX graph that replace others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_oracle import to_array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from payload.importers.onnx_blocks import HeldWeight


@dataclass(frozen=True)
class KnownTensors:
    """What is known of the tensors of a graph, by name.

    Attributes:
        shapes: Shapes of those that have one.
        kinds: ONNX's numbers of their types.
        constants: Values of initializers.
        version: Version of the standard operators that the model imports.
        weights: Values of weights, inputs of the graph; a rewrite may add some.
        held: Those that stay in blocks, which a rewrite may add to; `None` inside a graph of a node.
    """

    shapes: Mapping[str, list[int]]
    kinds: Mapping[str, int]
    constants: Mapping[str, Array]
    version: int = 0
    weights: "dict[str, Array]" = field(default_factory=dict)
    held: "dict[str, HeldWeight] | None" = None

    def with_graph(self, graph: "GraphProto") -> "KnownTensors":
        """What is known inside a graph of a node, which reads tensors around it, too."""
        own = facts_of(graph)
        return KnownTensors(
            {**self.shapes, **own.shapes},
            {**self.kinds, **own.kinds},
            {**self.constants, **own.constants},
            self.version,
        )


@dataclass
class NodeWriter:
    """Nodes that replace one.

    Attributes:
        graph: Graph that holds their constants.
        stem: What their names begin with.
        nodes: Nodes so far.
    """

    graph: "GraphProto"
    stem: str
    nodes: "list[NodeProto]" = field(default_factory=list)

    def add(self, op: str, *inputs: str, into: str | Sequence[str] = "", **attributes: Any) -> str:  # noqa: ANN401
        """Add a node that gives `into`, or what it names itself; give the name of the first."""
        from onnx import helper  # noqa: PLC0415 - comes with an extra

        names = [into or f"{self.stem}_{len(self.nodes)}"] if isinstance(into, str) else into
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def constant(self, array: Array) -> str:
        """Add a constant; give its name."""
        from onnx import numpy_helper  # noqa: PLC0415

        name = f"{self.stem}_constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *values: int) -> str:
        """Add a constant list of whole numbers; give its name."""
        return self.constant(np.array(values, np.int64))

    def real(self, values: Any) -> str:  # noqa: ANN401 - as NumPy's
        """Add constants in f32; give their name."""
        return self.constant(np.array(values, np.float32))

    def number(self, value: float, kind: int) -> str:
        """Add a constant number of a type, by ONNX's number of it; give its name."""
        return self.constant(np.array(value).astype(dtype_of(kind)))

    def reshape(self, x: str, *shape: int, into: str = "") -> str:
        """The same elements in another shape."""
        return self.add("Reshape", x, self.numbers(*shape), into=into)

    def slice(self, x: str, begin: int, end: int, axis: int, *, step: int = 1) -> str:
        """A part of a tensor along an axis."""
        bounds = (begin, end, axis) if step == 1 else (begin, end, axis, step)
        return self.add("Slice", x, *map(self.numbers, bounds))

    def backwards(self, x: str, axis: int) -> str:
        """A tensor from its last element along an axis on."""
        return self.slice(x, -1, -(1 << 62), axis, step=-1)


def dtype_of(kind: int) -> "np.dtype[Any]":
    """NumPy's type by ONNX's number."""
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415 - comes with an extra

    found: np.dtype[Any] = tensor_dtype_to_np_dtype(kind)
    return found


Rewrite = Callable[[NodeWriter, "NodeProto", KnownTensors], bool]  # writes a node as others; returns whether it did


def facts_of(graph: "GraphProto") -> KnownTensors:
    """What is known of the tensors of a graph whose shapes are inferred."""
    typed = {v.name: v.type.tensor_type for v in [*graph.input, *graph.value_info, *graph.output]}
    constants = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    sized = {name: kind.shape.dim for name, kind in typed.items() if kind.HasField("shape")}  # [] is a number's
    shapes = {name: [dim.dim_value for dim in dims] for name, dims in sized.items()}
    shapes = {name: shape for name, shape in shapes.items() if 0 not in shape}
    shapes |= {name: list(array.shape) for name, array in constants.items()}
    kinds = {name: kind.elem_type for name, kind in typed.items()}
    return KnownTensors(shapes, kinds | {tensor.name: tensor.data_type for tensor in graph.initializer}, constants)


def of(node: "NodeProto", name: str, default: Any) -> Any:  # noqa: ANN401 - of any kind
    """An attribute of a node."""
    from onnx.helper import get_attribute_value  # noqa: PLC0415

    found = next((get_attribute_value(each) for each in node.attribute if each.name == name), default)
    return found.decode() if isinstance(found, bytes) else found
