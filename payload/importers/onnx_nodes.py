"""Nodes of an ONNX graph in the place of others."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


@dataclass
class NodeWriter:
    """Nodes in the place of one.

    Attributes:
        graph: Graph that holds their constants.
        stem: What their names begin with.
        nodes: Nodes so far.
    """

    graph: "GraphProto"
    stem: str
    nodes: "list[NodeProto]" = field(default_factory=list)

    def add(self, op: str, *inputs: str, into: str = "", **attributes: Any) -> str:  # noqa: ANN401 - of any kind
        """Add a node; give the name of what it gives."""
        from onnx import helper  # noqa: PLC0415 - comes with an extra

        name = into or f"{self.stem}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array: Array) -> str:
        """Add a constant; give its name."""
        from onnx import numpy_helper  # noqa: PLC0415

        name = f"{self.stem}_constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, *values: int) -> str:
        """Add a constant list of whole numbers; give its name."""
        return self.constant(np.array(values, np.int64))

    def reshape(self, x: str, *shape: int, into: str = "") -> str:
        """The same elements in another shape."""
        return self.add("Reshape", x, self.numbers(*shape), into=into)
