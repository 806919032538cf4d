"""Operations that take elements at indices: indices of a known array are checked, computed ones brought into range."""

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
    """Elements in the opposite order along axes, along all for `None`."""
    source = as_tensor("flip", x)
    for dim in axes_of("flip", axis, source.ndim):
        count = source.shape[dim]
        last_first = (count - 1) - operate("arange", count)
        source = gather(source, last_first, dim) if count > 1 else source
    return source


@operation
def take(x: object, indices: object, /, *, axis: int | None = None) -> Tensor:
    """Elements along an axis at the indices that whole numbers say; negative ones count from the end.

    Indices of a known array, and of an argument of a compiled function, are checked; those of an argument are counted
    from the front. Computed ones are brought into range.

    Raises:
        TensorIndexError: An index is not there.
    """
    source, index = as_tensor("take", x), whole("take", indices)
    if axis is None and source.ndim != 1:
        raise TensorError(f"an axis must be named to take from shape {source.shape}; add axis=")
    dim = axis_of("take", 0 if axis is None else axis, source.ndim)
    count = source.shape[dim]
    return gather(source, index if count and is_checked(index) else in_range(index, count), dim)


def whole(what: str, indices: object) -> Tensor:
    """Indices as a tensor.

    Raises:
        TensorTypeError: Indices are no whole numbers.
    """
    given = as_tensor(what, indices)
    if given.dtype.kind != "i":
        raise TensorTypeError(f"indices to take must be whole numbers, they are {given.dtype.name}; use astype")
    return given


def is_checked(indices: Tensor) -> bool:
    """Return whether indices are an argument of a function: each call checks that it holds indices that are there."""
    return indices.node.op == INPUT


def in_range(indices: Tensor, count: int) -> Tensor:
    """Indices counted from the front: known ones are checked, others brought into range.

    Raises:
        TensorIndexError: A known index is not there, or none is.
    """
    if count == 0 and indices.size:
        raise TensorIndexError("there must be something to take from, the axis has no elements")
    numbers = indices.node.array
    if numbers is None:
        front = operate("where", indices < 0, indices + count, indices)
        return operate("clip", front, 0, max(count - 1, 0))
    wrong = numbers[(numbers < -count) | (numbers >= count)]
    if wrong.size:
        raise TensorIndexError(
            f"indices to take from {count} elements must be from {-count} to {count - 1}, got {wrong.flat[0]}"
        )
    return known(numbers % count) if numbers.size and numbers.min() < 0 else indices


@operation
def take_along_axis(x: object, indices: object, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis at indices, which may be others for each row along it.

    Args:
        x: Tensor to take from.
        indices: Indices along the axis, of as many axes as `x`; the others have the sizes of `x`, or 1.
        axis: Axis to take along.

    Raises:
        TensorError: Shapes do not go together.
        TensorIndexError: An index is not there.
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
    """Elements at indices along the first axes, a tensor for each; these are repeated to one shape.

    Raises:
        TensorIndexError: A known index is not there.
    """
    sizes, rest = x.shape[: len(indices)], x.shape[len(indices) :]
    positions = [operate("astype", in_range(each, size), np.int64) for each, size in zip(indices, sizes, strict=True)]
    linear = positions[0]
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        linear = linear * size + position
    return gather(reshape(x, (math.prod(sizes), *rest)), linear, 0)


@operation
def repeat(x: object, repeats: object, /, *, axis: int | None = None) -> Tensor:
    """Every element so many times in a row, along an axis or of all in order.

    Args:
        x: Tensor to repeat elements of.
        repeats: Number of times, or one for each element along the axis. They are computed: the shape rests on them.
        axis: Axis to repeat along; `None` for all elements in order.

    Raises:
        TensorError: Numbers rest on an argument of a function that is traced, or are not as many as elements.
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
    """Elements along an axis at indices that are in range."""
    shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
    if source.shape[axis] == 1:
        kept = [d if d < axis else None if d == axis else d + indices.ndim - 1 for d in range(source.ndim)]
        return view(source, shape, kept)
    return Tensor(Node("take", shape, source.dtype, (source.node, indices.node), attributes=(axis,)))
