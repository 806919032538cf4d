"""The graph: immutable nodes, each an operation on others; and what makes an operation of a function of ours."""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from autotune.core.errors import TensorError
from autotune.core.payload import Array
from autotune.tensor.dtypes import DType
from autotune.tensor.shapes import Shape

HERE = str(Path(__file__).parent)
ARRAY, INPUT = "array", "input"  # nodes without operands: an array that is known, an argument of a traced function
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Node:
    """One operation; equal to itself alone.

    Attributes:
        op: Name of the operation.
        shape: Sizes of the result, outermost first.
        dtype: Element type of the result.
        inputs: Nodes that it reads, in the order that the operation defines.
        attributes: Numbers and names that belong to it, such as the axes of a sum.
        array: Elements of an `ARRAY`, which are not written to.
    """

    op: str
    shape: Shape
    dtype: DType
    inputs: tuple["Node", ...] = ()
    attributes: tuple[Any, ...] = ()
    array: Array | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TensorError("a graph of tensors must stay in its process, it was to be copied; copy its .numpy()")


OPERATIONS: dict[str, Callable[..., Any]] = {}


def call(name: str, *arguments: object, **named: object) -> object:
    """Call an operation by its name: methods of a tensor come before what they call."""
    return OPERATIONS[name](*arguments, **named)


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function an operation: known by its name, its errors raised at the line of the caller."""

    @functools.wraps(function)
    def placed(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except TensorError as error:
            wrong = refused(error)
        raise wrong.with_traceback(None)

    OPERATIONS[function.__name__] = placed
    return placed


def refused(error: TensorError) -> TensorError:
    """An error with the location of the user's line before it; one that has a location is left as it is."""
    if getattr(error, "placed", False):
        return error
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    placed = type(error)(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: {error}")
    placed.placed = True  # type: ignore[attr-defined]
    return placed


def behind(results: tuple[Node, ...]) -> tuple[Node, ...]:
    """Every node that some nodes rest on, and those, operands first; no recursion, graphs are deep."""
    order: dict[int, Node] = {}
    for result in results:
        waiting = [(result, False)]
        while waiting:
            node, ready = waiting.pop()
            if id(node) in order:
                continue
            if ready:
                order[id(node)] = node
            else:
                waiting.append((node, True))
                waiting += [(each, False) for each in reversed(node.inputs)]
    return tuple(order.values())
