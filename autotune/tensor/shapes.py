"""Shapes: what fits together, and which axes are meant; errors name the shapes."""

import operator
from collections.abc import Sequence

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError

Shape = tuple[int, ...]
Sizes = int | Sequence[int]


def broadcast(what: str, *shapes: Shape) -> Shape:
    """The shape of a result whose operands are repeated along what they lack.

    Args:
        what: Name of the operation, for the message.
        *shapes: Shapes of its operands.

    Raises:
        TensorError: Shapes do not fit together.

    Example:
        >>> broadcast("add", (3, 1), (4,))
        (3, 4)
    """
    rank = max(map(len, shapes), default=0)
    result = []
    for index in range(rank):
        sizes = {shape[index - rank + len(shape)] for shape in shapes if index >= rank - len(shape)} - {1}
        if len(sizes) > 1:
            text = ", ".join(map(str, shapes))
            raise TensorError(f"shapes of {what} must broadcast, {text} do not; sizes of an axis are equal, or 1")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def as_shape(what: str, shape: Sizes) -> Shape:
    """A shape as a user gives it: a size, or a sequence of sizes.

    Raises:
        TensorTypeError: The shape holds something else than whole numbers.
        TensorError: A size is below 0.
    """
    try:
        sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, Sequence) else (shape,)))
    except TypeError as error:
        raise TensorTypeError(f"a shape for {what} must be whole numbers, got {shape!r}") from error
    if any(size < 0 for size in sizes):
        raise TensorError(f"sizes of {what} must not be negative, got {sizes}")
    return sizes


def axis_of(what: str, axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        TensorTypeError: The axis is no whole number.
        TensorIndexError: There is no such axis.
    """
    try:
        number = operator.index(axis)
    except TypeError as error:
        raise TensorTypeError(f"axis of {what} must be a whole number, got {axis!r}") from error
    if not -rank <= number < rank:
        allowed = f"from {-rank} to {rank - 1}" if rank else "left out of 0 dimensions"
        raise TensorIndexError(f"axis of {what} must be {allowed}, got {axis}")
    return number % rank


def axes_of(what: str, axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes that are meant, in order; all for `None`.

    Raises:
        TensorIndexError: There is no such axis.
        TensorError: An axis is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    found = [axis_of(what, each, rank) for each in (axis if isinstance(axis, Sequence) else (axis,))]
    if len(set(found)) < len(found):
        raise TensorError(f"axes of {what} must differ, got {axis}")
    return tuple(sorted(found))


def without(shape: Shape, axes: Sequence[int], *, keepdims: bool = False) -> Shape:
    """A shape without some axes, or with those of size 1.

    Example:
        >>> without((2, 3, 4), (1,)), without((2, 3, 4), (1,), keepdims=True)
        ((2, 4), (2, 1, 4))
    """
    if keepdims:
        return tuple(1 if index in axes else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in axes)
