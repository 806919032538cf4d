"""Operations on shapes and axes: broadcasting, transposition, reshape."""

import math
from collections.abc import Sequence

from autotune.core.errors import TensorError
from autotune.tensor.graph import Node, operation
from autotune.tensor.shapes import Shape, Sizes, as_shape, axes_of, axis_of, broadcast, without
from autotune.tensor.tensor import Tensor, as_tensor, operate


def view(x: Tensor, shape: Shape, dims: Sequence[int | None]) -> Tensor:
    """Permute, drop and broadcast the axes of a tensor.

    Args:
        x: Tensor to view.
        shape: Sizes of the result; along axes that `dims` does not name, elements are broadcast.
        dims: Axis of the result for each axis of `x`; `None` drops one of size 1.
    """
    if shape == x.shape and tuple(dims) == tuple(range(x.ndim)):
        return x
    return Tensor(Node("view", shape, x.dtype, (x.node,), attributes=(tuple(dims),)))


@operation
def broadcast_to(x: object, /, shape: Sizes) -> Tensor:
    """Broadcast a tensor to a shape."""
    source, sizes = as_tensor("broadcast_to", x), as_shape("broadcast_to", shape)
    more = len(sizes) - source.ndim
    if more < 0 or any(size not in (1, sizes[index + more]) for index, size in enumerate(source.shape)):
        raise TensorError(f"shape {source.shape} must broadcast to {sizes}, it does not; sizes are equal, or 1")
    dims = [index + more if size == sizes[index + more] else None for index, size in enumerate(source.shape)]
    return view(source, sizes, dims)


@operation
def broadcast_arrays(*arrays: object) -> tuple[Tensor, ...]:
    """Broadcast tensors to a common shape."""
    sources = [as_tensor("broadcast_arrays", x) for x in arrays]
    shape = broadcast("broadcast_arrays", *(x.shape for x in sources))
    return tuple(broadcast_to(x, shape) for x in sources)


@operation
def broadcast_shapes(*shapes: Shape) -> Shape:
    """Shape that tensors of the given shapes broadcast to."""
    return broadcast("broadcast_shapes", *(as_shape("broadcast_shapes", shape) for shape in shapes))


@operation
def permute_dims(x: object, /, axes: Sequence[int]) -> Tensor:
    """Permute axes: axis i of the result is axis ``axes[i]`` of the operand."""
    source = as_tensor("permute_dims", x)
    order = [axis_of("permute_dims", axis, source.ndim) for axis in axes]
    if sorted(order) != list(range(source.ndim)):
        raise TensorError(f"axes must name each of {source.ndim} axes once, got {tuple(axes)} of shape {source.shape}")
    return view(source, tuple(source.shape[axis] for axis in order), [order.index(d) for d in range(source.ndim)])


@operation
def matrix_transpose(x: object, /) -> Tensor:
    """Swap the last two axes."""
    source = as_tensor("matrix_transpose", x)
    if source.ndim < 2:
        raise TensorError(f"a matrix must have 2 dimensions or more, shape is {source.shape}")
    return permute_dims(source, [*range(source.ndim - 2), source.ndim - 1, source.ndim - 2])


@operation
def moveaxis(x: object, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Move axes to other positions; the others stay in order.

    Raises:
        TensorError: The numbers of sources and destinations differ, or an axis is repeated.
    """
    operand = as_tensor("moveaxis", x)
    start, end = (
        [axis_of("moveaxis", axis, operand.ndim) for axis in (axes if isinstance(axes, Sequence) else (axes,))]
        for axes in (source, destination)
    )
    if len(start) != len(end) or len(set(start)) < len(start) or len(set(end)) < len(end):
        raise TensorError(f"moveaxis must have a destination for each axis, got {source} and {destination}")
    order = [axis for axis in range(operand.ndim) if axis not in start]
    for position, axis in sorted(zip(end, start, strict=True)):
        order.insert(position, axis)
    return permute_dims(operand, order)


@operation
def expand_dims(x: object, /, axis: int | Sequence[int] = 0) -> Tensor:
    """Insert axes of size 1; `axis` counts in the result."""
    source = as_tensor("expand_dims", x)
    more = len(axis) if isinstance(axis, Sequence) else 1
    left, rank = iter(source.shape), source.ndim + more
    axes = axes_of("expand_dims", axis, rank)
    return operate("reshape", source, tuple(1 if index in axes else next(left) for index in range(rank)))


@operation
def squeeze(x: object, /, axis: int | Sequence[int]) -> Tensor:
    """Remove axes of size 1."""
    source = as_tensor("squeeze", x)
    axes = axes_of("squeeze", axis, source.ndim)
    if any(source.shape[dim] != 1 for dim in axes):
        raise TensorError(f"axes that squeeze drops must have size 1, {axis} of shape {source.shape} has not")
    return operate("reshape", source, without(source.shape, axes))


@operation
def reshape(x: object, /, shape: Sizes, *, copy: bool | None = None) -> Tensor:
    """Reshape a tensor, keeping the row-major order of its elements.

    Args:
        x: Tensor to reshape.
        shape: Sizes of the result; one may be -1, which is inferred from the others.
        copy: Whether elements must be copied; without effect, since tensors are immutable.

    Raises:
        TensorError: The number of elements differs.
    """
    source = as_tensor("reshape", x)
    new_shape = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    rest = [dim for dim, size in enumerate(new_shape) if isinstance(size, int) and size == -1]
    others = math.prod(as_shape("reshape", [size for dim, size in enumerate(new_shape) if dim not in rest]))
    if len(rest) == 1 and others and source.size % others == 0:
        new_shape = tuple(source.size // others if dim in rest else size for dim, size in enumerate(new_shape))
    elif rest or others != source.size:
        raise TensorError(f"a shape must hold {source.size} elements of shape {source.shape}, {new_shape} does not")
    sizes = as_shape("reshape", new_shape)
    dims = [dim for dim, size in enumerate(sizes) if size != 1]
    if [size for size in source.shape if size != 1] != [sizes[dim] for dim in dims]:
        return Tensor(Node("reshape", sizes, source.dtype, (source.node,)))
    left = iter(dims)
    return view(source, sizes, [None if size == 1 else next(left) for size in source.shape])
