"""Broadcasting of shapes and normalization of axes; errors name the shapes."""

import operator
from collections.abc import Sequence

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError

Shape = tuple[int, ...]
Sizes = int | Sequence[int]


def broadcast(name: str, *shapes: Shape) -> Shape:
    """Return the shape that operands broadcast to.

    Args:
        name: Name of the operation, for the message.
        *shapes: Shapes of its operands.

    Raises:
        TensorError: Shapes do not broadcast.

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
            raise TensorError(f"shapes of {name} must broadcast, {text} do not; sizes of an axis are equal, or 1")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def as_shape(name: str, shape: Sizes) -> Shape:
    """Convert a size, or a sequence of sizes, to a shape.

    Raises:
        TensorTypeError: A size is not an integer.
        TensorError: A size is below 0.
    """
    try:
        sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, Sequence) else (shape,)))
    except TypeError as error:
        raise TensorTypeError(f"a shape for {name} must be whole numbers, got {shape!r}") from error
    if any(size < 0 for size in sizes):
        raise TensorError(f"sizes of {name} must not be negative, got {sizes}")
    return sizes


def axis_of(name: str, axis: int, rank: int) -> int:
    """Normalize an axis to be nonnegative.

    Raises:
        TensorTypeError: The axis is not an integer.
        TensorIndexError: The axis is out of range.
    """
    try:
        number = operator.index(axis)
    except TypeError as error:
        raise TensorTypeError(f"axis of {name} must be a whole number, got {axis!r}") from error
    if not -rank <= number < rank:
        allowed = f"from {-rank} to {rank - 1}" if rank else "left out of 0 dimensions"
        raise TensorIndexError(f"axis of {name} must be {allowed}, got {axis}")
    return number % rank


def axes_of(name: str, axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Normalize axes and sort them; all axes for `None`.

    Raises:
        TensorIndexError: An axis is out of range.
        TensorError: An axis is repeated.
    """
    if axis is None:
        return tuple(range(rank))
    numbers = [axis_of(name, each, rank) for each in (axis if isinstance(axis, Sequence) else (axis,))]
    if len(set(numbers)) < len(numbers):
        raise TensorError(f"axes of {name} must differ, got {axis}")
    return tuple(sorted(numbers))


def without(shape: Shape, axes: Sequence[int], *, keepdims: bool = False) -> Shape:
    """Remove axes from a shape, or set their sizes to 1.

    Example:
        >>> without((2, 3, 4), (1,)), without((2, 3, 4), (1,), keepdims=True)
        ((2, 4), (2, 1, 4))
    """
    if keepdims:
        return tuple(1 if index in axes else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in axes)
