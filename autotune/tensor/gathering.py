"""Gather operations: constant indices are checked, computed ones are clamped into range."""

import math
from collections.abc import Sequence

import numpy as np

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError
from autotune.tensor.creation import known
from autotune.tensor.graph import INPUT, Node, operation
from autotune.tensor.manipulation import reshape, view
from autotune.tensor.shapes import axes_of, axis_of, broadcast
from autotune.tensor.tensor import Tensor, as_tensor, operate


@operation
def flip(x: object, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Reverse the elements along axes; along all for `None`."""
    source = as_tensor("flip", x)
    for dim in axes_of("flip", axis, source.ndim):
        count = source.shape[dim]
        last_first = (count - 1) - operate("arange", count)
        source = gather(source, last_first, dim) if count > 1 else source
    return source


@operation
def take(x: object, indices: object, /, *, axis: int | None = None) -> Tensor:
    """Gather elements along an axis; negative indices count from the end.

    Constant indices, and those in an argument of a compiled function, are checked; those of an argument must not be
    negative. Computed indices are clamped into range.

    Raises:
        TensorIndexError: An index is out of range.
    """
    source, index = as_tensor("take", x), whole("take", indices)
    if axis is None and source.ndim != 1:
        raise TensorError(f"an axis must be named to take from shape {source.shape}; add axis=")
    dim = axis_of("take", 0 if axis is None else axis, source.ndim)
    count = source.shape[dim]
    return gather(source, index if count and is_checked(index) else in_range(index, count), dim)


def whole(name: str, indices: object) -> Tensor:
    """Convert indices to an integer tensor.

    Raises:
        TensorTypeError: Indices are not integers.
    """
    operand = as_tensor(name, indices)
    if operand.dtype.kind != "i":
        raise TensorTypeError(f"indices to take must be whole numbers, they are {operand.dtype.name}; use astype")
    return operand


def is_checked(indices: Tensor) -> bool:
    """Return whether indices are an argument of a traced function, whose calls check their range."""
    return indices.node.op == INPUT


def in_range(indices: Tensor, count: int) -> Tensor:
    """Return nonnegative indices below `count`: constant ones are checked, computed ones clamped.

    Raises:
        TensorIndexError: A constant index is out of range, or the axis has no elements.
    """
    if count == 0 and indices.size:
        raise TensorIndexError("there must be something to take from, the axis has no elements")
    numbers = indices.node.array
    if numbers is None:
        from_start = operate("where", indices < 0, indices + count, indices)
        return operate("clip", from_start, 0, max(count - 1, 0))
    invalid = numbers[(numbers < -count) | (numbers >= count)]
    if invalid.size:
        raise TensorIndexError(
            f"indices to take from {count} elements must be from {-count} to {count - 1}, got {invalid.flat[0]}"
        )
    return known(numbers % count) if numbers.size and numbers.min() < 0 else indices


@operation
def take_along_axis(x: object, indices: object, /, *, axis: int = -1) -> Tensor:
    """Gather elements along an axis, with separate indices for each position of the other axes.

    Args:
        x: Tensor to gather from.
        indices: Indices along the axis, of the rank of `x`; sizes of the other axes broadcast with those of `x`.
        axis: Axis to gather along.

    Raises:
        TensorError: Shapes do not match.
        TensorIndexError: A constant index is out of range.
    """
    source, index = as_tensor("take_along_axis", x), whole("take_along_axis", indices)
    along = axis_of("take_along_axis", axis, source.ndim)
    if index.ndim != source.ndim:
        raise TensorError(f"indices must have {source.ndim} dimensions to take from {source.shape}, got {index.shape}")
    others, rows = (tuple(1 if d == along else n for d, n in enumerate(each.shape)) for each in (source, index))
    shape = list(broadcast("take_along_axis", others, rows))
    shape[along] = source.shape[along]
    lines = [[size if each == d else 1 for each in range(source.ndim)] for d, size in enumerate(shape)]
    at = [index if d == along else reshape(operate("arange", shape[d]), line) for d, line in enumerate(lines)]
    return at_indices(operate("broadcast_to", source, shape), at)


def at_indices(x: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Gather elements by one index tensor for each of the first axes; the index tensors are broadcast.

    Raises:
        TensorIndexError: A constant index is out of range.
    """
    sizes, rest = x.shape[: len(indices)], x.shape[len(indices) :]
    positions = [operate("astype", in_range(each, size), np.int64) for each, size in zip(indices, sizes, strict=True)]
    linear = positions[0]
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        linear = linear * size + position
    return gather(reshape(x, (math.prod(sizes), *rest)), linear, 0)


@operation
def repeat(x: object, repeats: object, /, *, axis: int | None = None) -> Tensor:
    """Repeat every element along an axis, or of the flattened tensor.

    Args:
        x: Tensor whose elements are repeated.
        repeats: Number of repetitions, one for all or one for each element. A tensor is computed at once, since the
            shape of the result depends on it.
        axis: Axis to repeat along; `None` for the flattened tensor.

    Raises:
        TensorError: Numbers depend on an argument of a traced function, or their count differs from the elements'.
    """
    source = as_tensor("repeat", x)
    source, dim = (reshape(source, -1), 0) if axis is None else (source, axis_of("repeat", axis, source.ndim))
    size = source.shape[dim]
    times = np.asarray(repeats) if isinstance(repeats, (int, list, tuple)) else as_tensor("repeat", repeats).numpy()
    if times.size not in (1, size) or times.dtype.kind != "i" or (times < 0).any():
        raise TensorError(f"numbers of repeat must be whole, one or {size} of them and not negative, got {times}")
    at = np.repeat(np.arange(size), np.broadcast_to(times.reshape(-1), size))
    return gather(source, known(at), dim)


def gather(source: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Gather elements along an axis by indices that are in range."""
    shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
    if source.shape[axis] == 1:
        dims = [d if d < axis else None if d == axis else d + indices.ndim - 1 for d in range(source.ndim)]
        return view(source, shape, dims)
    return Tensor(Node("take", shape, source.dtype, (source.node, indices.node), attributes=(axis,)))
