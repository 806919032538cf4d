"""The graph of immutable nodes, and the decorator that registers a function as an operation."""

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
ARRAY, INPUT = "array", "input"  # nodes without operands: a constant array, an argument of a traced function
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of a graph; nodes compare by identity.

    Attributes:
        op: Name of the operation.
        shape: Sizes of the result, outermost first.
        dtype: Element type of the result.
        inputs: Operands, in the order that the operation defines.
        attributes: Static attributes, such as the axes of a sum.
        array: Elements of an `ARRAY`, which are read-only.
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
    """Call an operation by its name; `Tensor` uses this because operations are defined after it."""
    return OPERATIONS[name](*arguments, **named)


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """Register a function as an operation by its name; its errors name the source line of the caller."""

    @functools.wraps(function)
    def placed(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except TensorError as error:
            located = refused(error)
        raise located.with_traceback(None)

    OPERATIONS[function.__name__] = placed
    return placed


def refused(error: TensorError) -> TensorError:
    """Return an error with the user's file and line prepended; an error that has a location is returned unchanged."""
    if getattr(error, "placed", False):
        return error
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    placed = type(error)(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: {error}")
    placed.placed = True  # type: ignore[attr-defined]
    return placed


def behind(results: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the given nodes and all their transitive operands, operands first; iterative, since graphs are deep."""
    order: dict[int, Node] = {}
    for result in results:
        stack = [(result, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in order:
                continue
            if ready:
                order[id(node)] = node
            else:
                stack.append((node, True))
                stack += [(each, False) for each in reversed(node.inputs)]
    return tuple(order.values())
