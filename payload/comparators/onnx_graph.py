"""ONNX graphs in the making, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class Node:
    """An operator: its kind, the names of what it reads and gives, and its attributes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass
class Graph:
    """A graph in the making; values are known by their names.

    Attributes:
        nodes: Operators, in order; the last one gives the output.
        constants: Small arrays, part of the model.
        weights: Large arrays, handed to the session beside it.
        fed: Inputs that are no arguments of the payload, with their values: parts of its states.
        kept: Outputs that are no arguments of the payload, with their shapes: parts of its states after a call.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    fed: dict[str, Array] = field(default_factory=dict)
    kept: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 - whatever an operator takes
        """Add an operator with one output; give that."""
        (output,) = self.ops(kind, inputs, 1, **attributes)
        return output

    def ops(self, kind: str, inputs: tuple[str, ...], count: int, **attributes: Any) -> tuple[str, ...]:  # noqa: ANN401
        """Add an operator with `count` outputs; give those."""
        outputs = tuple(f"v{len(self.nodes)}_{i}" for i in range(count))
        self.nodes.append(Node(kind, inputs, outputs, attributes))
        return outputs

    def constant(self, value: Array | float | list[int]) -> str:
        """Add a small constant: a float is f32, a list is a shape."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, np.float32 if isinstance(value, float) else None)
        return name

    def feed(self, name: str, array: Array) -> str:
        """Add an input that is no argument of the payload."""
        self.fed[name] = np.ascontiguousarray(array)
        return name

    def keep(self, value: str, shape: tuple[int, ...]) -> str:
        """Make a value an output besides; give it."""
        self.kept[value] = shape
        return value

    def weight(self, name: str, array: Array) -> str:
        """Add a large constant."""
        self.weights[name] = np.ascontiguousarray(array)
        return name
