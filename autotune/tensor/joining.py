"""Operations that join and split tensors."""

from collections.abc import Sequence

from autotune.core.errors import TensorError
from autotune.tensor.dtypes import promote
from autotune.tensor.graph import Node, operation
from autotune.tensor.manipulation import broadcast_to, expand_dims, moveaxis, reshape
from autotune.tensor.shapes import as_shape, axis_of, without
from autotune.tensor.tensor import Tensor, as_tensor, operands, operate


@operation
def concat(arrays: Sequence[object], /, *, axis: int | None = 0) -> Tensor:
    """Concatenate tensors along an axis; for `None`, flatten them first."""
    parts = operands("concat", *arrays)
    if not parts:
        raise TensorError("tensors to concat must be one or more, got none")
    if axis is None:
        parts, axis = [reshape(part, -1) for part in parts], 0
    dim = axis_of("concat", axis, parts[0].ndim)
    if len({(part.ndim, without(part.shape, (dim,))) for part in parts}) > 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise TensorError(f"shapes of concat must be equal but for axis {axis}, they are {shapes}")
    dtype = promote("concat", *(part.dtype for part in parts))
    sizes = list(parts[0].shape)
    sizes[dim] = sum(part.shape[dim] for part in parts)
    converted = tuple(operate("astype", part, dtype).node for part in parts)
    return Tensor(Node("concat", tuple(sizes), dtype, converted, attributes=(dim,)))


@operation
def concatenate(arrays: Sequence[object], axis: int | None = 0) -> Tensor:
    """`concat` under NumPy's name."""
    return concat(arrays, axis=axis)


@operation
def stack(arrays: Sequence[object], /, *, axis: int = 0) -> Tensor:
    """Stack tensors of equal shape along a new axis."""
    parts = operands("stack", *arrays)
    if len({part.shape for part in parts}) != 1:
        shapes = ", ".join(str(part.shape) for part in parts) or "none"
        raise TensorError(f"shapes of stack must be equal, they are {shapes}")
    dim = axis_of("stack", axis, parts[0].ndim + 1)
    return concat([expand_dims(part, axis=dim) for part in parts], axis=dim)


@operation
def unstack(x: object, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor along an axis into slices without that axis."""
    source = as_tensor("unstack", x)
    return tuple(moveaxis(source, axis, 0)) if source.ndim else tuple(source)


def part(x: Tensor, start: int, stop: int, axis: int) -> Tensor:
    """Return the slice ``start:stop`` along an axis."""
    return operate("take_part", x, (*[slice(None)] * axis, slice(start, stop)))


@operation
def roll(x: object, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Rotate elements along axes: those moved past the end reappear at the front.

    Args:
        x: Tensor to rotate.
        shift: Shift along each axis, or one for all.
        axis: Axes to rotate along; `None` to rotate the flattened tensor.

    Raises:
        TensorError: The numbers of shifts and axes differ.
    """
    source = as_tensor("roll", x)
    if axis is None:
        return reshape(roll(reshape(source, -1), shift, axis=0), source.shape)
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    shifts = list(shift) if isinstance(shift, Sequence) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise TensorError(f"roll must have a shift for each axis, got {shift} for {axis}")
    for offset, along in zip(shifts, axes, strict=True):
        dim = axis_of("roll", along, source.ndim)
        size = source.shape[dim]
        cut = -offset % max(size, 1)
        source = concat([part(source, cut, size, dim), part(source, 0, cut, dim)], axis=dim) if cut else source
    return source


@operation
def tile(x: object, repetitions: Sequence[int], /) -> Tensor:
    """Repeat a tensor `repetitions` times along each axis; the last number is that of the last axis.

    Raises:
        TensorError: A number is below 0.
    """
    source, times = as_tensor("tile", x), as_shape("tile", repetitions)
    rank = max(source.ndim, len(times))
    shape, counts = ((1,) * (rank - len(each)) + each for each in (source.shape, times))
    interleaved = reshape(source, [size for pair in zip((1,) * rank, shape, strict=True) for size in pair])
    repeated = broadcast_to(interleaved, [size for pair in zip(counts, shape, strict=True) for size in pair])
    return reshape(repeated, [count * size for count, size in zip(counts, shape, strict=True)])
