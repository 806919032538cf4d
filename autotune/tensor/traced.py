"""Tracing: call a function once with placeholder tensors instead of arrays, and record the graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autotune.core.errors import TensorTypeError
from autotune.core.payload import Array
from autotune.tensor.creation import asarray
from autotune.tensor.graph import INPUT, Node
from autotune.tensor.program import write_program
from autotune.tensor.tensor import Tensor
from autotune.tensor.views import squeezed

Nested = Any  # an array, or tuples, lists and dictionaries of arrays


class Traced:
    """The graph of a function of tensors at the shapes of its arguments.

    Args:
        function: Function to trace: it is called once, with tensors instead of arrays.
        arguments: Positional arguments; numbers, strings and `None` are constants of the graph.
        named: Keyword arguments.

    Attributes:
        program: Program of the traced graph.
    """

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._inputs: list[Node] = []
        positional = [self._stand_in(value) for value in arguments]
        by_name = {name: self._stand_in(value) for name, value in named.items()}
        results: list[Node] = []
        self._template = template(function(*positional, **by_name), results)
        name = getattr(function, "__name__", type(function).__name__)
        self.program = write_program(tuple(results), tuple(self._inputs), name)

    def _stand_in(self, value: object) -> object:
        if not isinstance(value, np.ndarray):
            return value
        node = asarray(value).node  # raises for unsupported element types
        self._inputs.append(Node(INPUT, node.shape, node.dtype, attributes=(len(self._inputs),)))
        return Tensor(self._inputs[-1])

    def arrange(self, arrays: Sequence[Array]) -> Nested:
        """Return the arrays of the results in the structure that the function returned."""
        return arrays[0] if self._template == 0 else filled(self._template, arrays)


def template(result: object, nodes: list[Node]) -> Nested:
    """Replace each tensor of a nested result by its index, and append its node to `nodes`.

    Raises:
        TensorTypeError: A leaf of the result is no tensor.
    """
    if isinstance(result, Tensor):
        nodes.append(result.node)
        return len(nodes) - 1
    if isinstance(result, (tuple, list)):
        return type(result)([template(each, nodes) for each in result])
    if isinstance(result, dict):
        return {name: template(each, nodes) for name, each in result.items()}
    raise TensorTypeError(f"a compiled function must return tensors, it returned {type(result).__name__}; use asarray")


def filled(nested: Nested, arrays: Sequence[Array]) -> Nested:
    """Replace the indices of a template by arrays."""
    if isinstance(nested, int):
        return arrays[nested]
    if isinstance(nested, dict):
        return {name: filled(each, arrays) for name, each in nested.items()}
    return type(nested)([filled(each, arrays) for each in nested])


def stored(array: Array) -> Array:
    """Return an array in the shape of its payload argument, without dimensions of size 1."""
    return array.reshape(squeezed(array.shape))


def finished(results: Sequence[Node], written: Sequence[Array]) -> list[Array]:
    """Convert the outputs of a program to the shapes and element types of the graph's results."""
    left = iter(written)
    return [
        np.empty(node.shape, node.dtype)
        if 0 in node.shape
        else next(left).astype(node.dtype, copy=False).reshape(node.shape)
        for node in results
    ]
