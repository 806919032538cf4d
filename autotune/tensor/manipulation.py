"""Operations that look at elements otherwise: shapes, axes, repetition."""

import math
from collections.abc import Sequence

from autotune.core.errors import TensorError
from autotune.tensor.graph import Node, operation
from autotune.tensor.shapes import Shape, Sizes, as_shape, axes_of, axis_of, broadcast, without
from autotune.tensor.tensor import Tensor, as_tensor, operate


def view(x: Tensor, shape: Shape, dims: Sequence[int | None]) -> Tensor:
    """The same elements with their axes elsewhere.

    Args:
        x: Tensor to look at.
        shape: Sizes of the result; along axes that `dims` does not name, elements are repeated.
        dims: Axis of the result for each axis of `x`; `None` drops one of size 1.
    """
    if shape == x.shape and tuple(dims) == tuple(range(x.ndim)):
        return x
    return Tensor(Node("view", shape, x.dtype, (x.node,), attributes=(tuple(dims),)))


@operation
def broadcast_to(x: object, /, shape: Sizes) -> Tensor:
    """Elements repeated to fill a shape."""
    source, sizes = as_tensor("broadcast_to", x), as_shape("broadcast_to", shape)
    more = len(sizes) - source.ndim
    if more < 0 or any(size not in (1, sizes[index + more]) for index, size in enumerate(source.shape)):
        raise TensorError(f"shape {source.shape} must broadcast to {sizes}, it does not; sizes are equal, or 1")
    dims = [index + more if size == sizes[index + more] else None for index, size in enumerate(source.shape)]
    return view(source, sizes, dims)


@operation
def broadcast_arrays(*arrays: object) -> tuple[Tensor, ...]:
    """Tensors repeated to one shape."""
    sources = [as_tensor("broadcast_arrays", x) for x in arrays]
    shape = broadcast("broadcast_arrays", *(x.shape for x in sources))
    return tuple(broadcast_to(x, shape) for x in sources)


@operation
def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that tensors of some shapes are repeated to."""
    return broadcast("broadcast_shapes", *(as_shape("broadcast_shapes", shape) for shape in shapes))


@operation
def permute_dims(x: object, /, axes: Sequence[int]) -> Tensor:
    """Axes in another order: axis i of the result is axis ``axes[i]``."""
    source = as_tensor("permute_dims", x)
    order = [axis_of("permute_dims", axis, source.ndim) for axis in axes]
    if sorted(order) != list(range(source.ndim)):
        raise TensorError(f"axes must name each of {source.ndim} axes once, got {tuple(axes)} of shape {source.shape}")
    return view(source, tuple(source.shape[axis] for axis in order), [order.index(d) for d in range(source.ndim)])


@operation
def matrix_transpose(x: object, /) -> Tensor:
    """Matrices along the last two axes, transposed."""
    source = as_tensor("matrix_transpose", x)
    if source.ndim < 2:
        raise TensorError(f"a matrix must have 2 dimensions or more, shape is {source.shape}")
    return permute_dims(source, [*range(source.ndim - 2), source.ndim - 1, source.ndim - 2])


@operation
def moveaxis(x: object, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Axes at other indices, the others in order.

    Raises:
        TensorError: There are not as many destinations as sources, or one is named twice.
    """
    given = as_tensor("moveaxis", x)
    start, end = (
        [axis_of("moveaxis", axis, given.ndim) for axis in (axes if isinstance(axes, Sequence) else (axes,))]
        for axes in (source, destination)
    )
    if len(start) != len(end) or len(set(start)) < len(start) or len(set(end)) < len(end):
        raise TensorError(f"moveaxis must have a destination for each axis, got {source} and {destination}")
    order = [axis for axis in range(given.ndim) if axis not in start]
    for position, axis in sorted(zip(end, start, strict=True)):
        order.insert(position, axis)
    return permute_dims(given, order)


@operation
def expand_dims(x: object, /, axis: int | Sequence[int] = 0) -> Tensor:
    """More axes, of size 1; indices are counted in the result."""
    source = as_tensor("expand_dims", x)
    more = len(axis) if isinstance(axis, Sequence) else 1
    left, rank = iter(source.shape), source.ndim + more
    axes = axes_of("expand_dims", axis, rank)
    return operate("reshape", source, tuple(1 if index in axes else next(left) for index in range(rank)))


@operation
def squeeze(x: object, /, axis: int | Sequence[int]) -> Tensor:
    """Some axes of size 1 less."""
    source = as_tensor("squeeze", x)
    axes = axes_of("squeeze", axis, source.ndim)
    if any(source.shape[dim] != 1 for dim in axes):
        raise TensorError(f"axes that squeeze drops must have size 1, {axis} of shape {source.shape} has not")
    return operate("reshape", source, without(source.shape, axes))


@operation
def reshape(x: object, /, shape: Sizes, *, copy: bool | None = None) -> Tensor:
    """The same elements, in order, in another shape.

    Args:
        x: Tensor to look at.
        shape: Sizes of the result; one may be -1, which is what is left.
        copy: Whether elements must be copied; of no effect, since tensors are not written to.

    Raises:
        TensorError: The shape does not hold the elements.
    """
    source = as_tensor("reshape", x)
    wanted = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    rest = [dim for dim, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    others = math.prod(as_shape("reshape", [size for dim, size in enumerate(wanted) if dim not in rest]))
    if len(rest) == 1 and others and source.size % others == 0:
        wanted = tuple(source.size // others if dim in rest else size for dim, size in enumerate(wanted))
    elif rest or others != source.size:
        raise TensorError(f"a shape must hold {source.size} elements of shape {source.shape}, {wanted} does not")
    sizes = as_shape("reshape", wanted)
    dims = [dim for dim, size in enumerate(sizes) if size != 1]
    if [size for size in source.shape if size != 1] != [sizes[dim] for dim in dims]:
        return Tensor(Node("reshape", sizes, source.dtype, (source.node,)))
    left = iter(dims)
    return view(source, sizes, [None if size == 1 else next(left) for size in source.shape])
