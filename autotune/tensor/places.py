"""Operations that move elements: shapes, axes, parts, joining."""

import math
from collections.abc import Sequence

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError
from autotune.tensor.dtypes import promote
from autotune.tensor.graph import Node, operation
from autotune.tensor.operators import operate
from autotune.tensor.shapes import Shape, Sizes, as_shape, axes_of, axis_of, broadcast, without
from autotune.tensor.tensor import Tensor, as_tensor, operands


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
def broadcast_to(x: object, shape: Sizes) -> Tensor:
    """Elements repeated to fill a shape."""
    source, sizes = as_tensor("broadcast_to", x), as_shape("broadcast_to", shape)
    more = len(sizes) - source.ndim
    if more < 0 or any(size not in (1, sizes[place + more]) for place, size in enumerate(source.shape)):
        raise TensorError(f"shape {source.shape} must broadcast to {sizes}, it does not; sizes are equal, or 1")
    dims = [place + more if size == sizes[place + more] else None for place, size in enumerate(source.shape)]
    return view(source, sizes, dims)


@operation
def broadcast_arrays(*arrays: object) -> tuple[Tensor, ...]:
    """Tensors repeated to one shape."""
    sources = [as_tensor("broadcast_arrays", x) for x in arrays]
    shape = broadcast("broadcast_arrays", *(x.shape for x in sources))
    return tuple(broadcast_to(x, shape) for x in sources)


@operation
def permute_dims(x: object, axes: Sequence[int]) -> Tensor:
    """Axes in another order: axis i of the result is axis ``axes[i]``."""
    source = as_tensor("permute_dims", x)
    order = [axis_of("permute_dims", axis, source.ndim) for axis in axes]
    if sorted(order) != list(range(source.ndim)):
        raise TensorError(f"axes must name each of {source.ndim} axes once, got {tuple(axes)} of shape {source.shape}")
    return view(source, tuple(source.shape[axis] for axis in order), [order.index(d) for d in range(source.ndim)])


@operation
def matrix_transpose(x: object) -> Tensor:
    """Matrices along the last two axes, transposed."""
    source = as_tensor("matrix_transpose", x)
    if source.ndim < 2:
        raise TensorError(f"a matrix must have 2 dimensions or more, shape is {source.shape}")
    return permute_dims(source, [*range(source.ndim - 2), source.ndim - 1, source.ndim - 2])


@operation
def moveaxis(x: object, source: int, destination: int) -> Tensor:
    """One axis at another place, the others in order."""
    given = as_tensor("moveaxis", x)
    start, end = (axis_of("moveaxis", axis, given.ndim) for axis in (source, destination))
    order = [axis for axis in range(given.ndim) if axis != start]
    order.insert(end, start)
    return permute_dims(given, order)


@operation
def expand_dims(x: object, *, axis: int = 0) -> Tensor:
    """One more axis, of size 1."""
    source = as_tensor("expand_dims", x)
    place = axis_of("expand_dims", axis, source.ndim + 1)
    return operate("reshape", source, (*source.shape[:place], 1, *source.shape[place:]))


@operation
def squeeze(x: object, axis: int | tuple[int, ...]) -> Tensor:
    """Some axes of size 1 less."""
    source = as_tensor("squeeze", x)
    axes = axes_of("squeeze", axis, source.ndim)
    if any(source.shape[place] != 1 for place in axes):
        raise TensorError(f"axes that squeeze drops must have size 1, {axis} of shape {source.shape} has not")
    return operate("reshape", source, without(source.shape, axes))


@operation
def reshape(x: object, shape: Sizes) -> Tensor:
    """The same elements, in order, in another shape; one size may be -1, which is what is left."""
    source = as_tensor("reshape", x)
    said = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    rest = [place for place, size in enumerate(said) if isinstance(size, int) and size == -1]
    others = math.prod(as_shape("reshape", [size for place, size in enumerate(said) if place not in rest]))
    if len(rest) == 1 and others and source.size % others == 0:
        said = tuple(source.size // others if place in rest else size for place, size in enumerate(said))
    elif rest or others != source.size:
        raise TensorError(f"a shape must hold {source.size} elements of shape {source.shape}, {said} does not")
    sizes = as_shape("reshape", said)
    places = [place for place, size in enumerate(sizes) if size != 1]
    if [size for size in source.shape if size != 1] != [sizes[place] for place in places]:
        return Tensor(Node("reshape", sizes, source.dtype, (source.node,)))
    left = iter(places)
    return view(source, sizes, [None if size == 1 else next(left) for size in source.shape])


@operation
def concat(arrays: Sequence[object], *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; flattened ones for `None`."""
    parts = operands("concat", *arrays)
    if not parts:
        raise TensorError("tensors to concat must be one or more, got none")
    if axis is None:
        parts, axis = [reshape(part, -1) for part in parts], 0
    place = axis_of("concat", axis, parts[0].ndim)
    if len({(part.ndim, without(part.shape, (place,))) for part in parts}) > 1:
        said = ", ".join(str(part.shape) for part in parts)
        raise TensorError(f"shapes of concat must be equal but for axis {axis}, they are {said}")
    dtype = promote("concat", *(part.dtype for part in parts))
    sizes = list(parts[0].shape)
    sizes[place] = sum(part.shape[place] for part in parts)
    converted = tuple(operate("astype", part, dtype).node for part in parts)
    return Tensor(Node("concat", tuple(sizes), dtype, converted, attributes=(place,)))


@operation
def concatenate(arrays: Sequence[object], axis: int | None = 0) -> Tensor:
    """`concat` under NumPy's name."""
    return concat(arrays, axis=axis)


@operation
def stack(arrays: Sequence[object], *, axis: int = 0) -> Tensor:
    """Tensors of one shape side by side, along a new axis."""
    parts = operands("stack", *arrays)
    if len({part.shape for part in parts}) != 1:
        said = ", ".join(str(part.shape) for part in parts) or "none"
        raise TensorError(f"shapes of stack must be equal, they are {said}")
    place = axis_of("stack", axis, parts[0].ndim + 1)
    return concat([expand_dims(part, axis=place) for part in parts], axis=place)


@operation
def unstack(x: object, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis, which they lack."""
    source = as_tensor("unstack", x)
    return tuple(moveaxis(source, axis, 0)) if source.ndim else tuple(source)


@operation
def flip(x: object, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements in the opposite order along axes, along all for `None`."""
    source = as_tensor("flip", x)
    for place in axes_of("flip", axis, source.ndim):
        count = source.shape[place]
        last_first = (count - 1) - operate("arange", count)
        source = gather(source, last_first, place) if count > 1 else source
    return source


@operation
def take(x: object, indices: object, *, axis: int | None = None) -> Tensor:
    """Elements along an axis at the places that whole numbers say, from 0 on.

    Places of a known array, and of an argument of a compiled function, are checked; computed ones are brought in range.
    """
    source, places = as_tensor("take", x), as_tensor("take", indices)
    if places.dtype.kind != "i":
        raise TensorTypeError(f"places to take must be whole numbers, they are {places.dtype.name}; use astype")
    if axis is None and source.ndim != 1:
        raise TensorError(f"an axis must be named to take from shape {source.shape}; add axis=")
    place = axis_of("take", 0 if axis is None else axis, source.ndim)
    count, known = source.shape[place], places.node.array
    if known is not None and known.size and (known.min() < 0 or known.max() >= count):
        wrong = known[(known < 0) | (known >= count)].flat[0]
        raise TensorIndexError(f"places to take from {count} elements must be from 0 to {count - 1}, got {wrong}")
    if count == 0 and places.size:
        raise TensorIndexError(f"there must be something to take, axis {place} of shape {source.shape} is empty")
    if places.node.op not in ("array", "input"):
        places = operate("clip", places, 0, max(count - 1, 0))
    return gather(source, places, place)


def gather(source: Tensor, places: Tensor, axis: int) -> Tensor:
    """Elements along an axis at places that are in range."""
    shape = (*source.shape[:axis], *places.shape, *source.shape[axis + 1 :])
    if source.shape[axis] == 1:
        kept = [d if d < axis else None if d == axis else d + places.ndim - 1 for d in range(source.ndim)]
        return view(source, shape, kept)
    return Tensor(Node("take", shape, source.dtype, (source.node, places.node), attributes=(axis,)))
