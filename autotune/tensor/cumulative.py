"""Sums and products of all elements so far, and differences of neighbours."""

from autotune.core.errors import TensorError
from autotune.tensor.creation import full
from autotune.tensor.dtypes import Flag
from autotune.tensor.graph import operation
from autotune.tensor.joining import concat, part
from autotune.tensor.reductions import numbers, widened
from autotune.tensor.shapes import axis_of
from autotune.tensor.tensor import Tensor, operate


@operation
def cumulative_sum(
    x: object, /, *, axis: int | None = None, dtype: object = None, include_initial: Flag = False
) -> Tensor:
    """Sum of the elements up to each along an axis, in log2 of their number steps.

    Args:
        x: Tensor to sum.
        axis: Axis to sum along; may be left out of one dimension.
        dtype: Element type to sum in; by default as `sum`.
        include_initial: Whether a 0 comes first.
    """
    found, dim = so_far("cumulative_sum", "add", widened("cumulative_sum", x, dtype), axis)
    return led(0, found, dim) if include_initial else found


@operation
def cumulative_prod(
    x: object, /, *, axis: int | None = None, dtype: object = None, include_initial: Flag = False
) -> Tensor:
    """Product of the elements up to each along an axis, as `cumulative_sum`; what may come first is a 1."""
    found, dim = so_far("cumulative_prod", "multiply", widened("cumulative_prod", x, dtype), axis)
    return led(1, found, dim) if include_initial else found


def so_far(what: str, op: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """Elements combined with all before them, and along which axis.

    With their neighbour first, then with what is 2, 4, 8 .. before (Hillis and Steele, 1986).

    Raises:
        TensorError: There are several axes, and none is named.
    """
    if axis is None and x.ndim != 1:
        raise TensorError(f"an axis must be named for {what} of shape {x.shape}; add axis=")
    dim = axis_of(what, 0 if axis is None else axis, x.ndim)
    size, step, found = x.shape[dim], 1, x
    while step < size:
        both = operate(op, part(found, step, size, dim), part(found, 0, size - step, dim))
        found, step = concat([part(found, 0, step, dim), both], axis=dim), 2 * step
    return found, dim


def led(first: int, x: Tensor, axis: int) -> Tensor:
    """Elements along an axis behind a number."""
    shape = tuple(1 if d == axis else size for d, size in enumerate(x.shape))
    return concat([full(shape, first, dtype=x.dtype), x], axis=axis)


@operation
def diff(x: object, /, *, axis: int = -1, n: int = 1, prepend: object = None, append: object = None) -> Tensor:
    """Differences of neighbours along an axis, of these again, `n` times.

    Args:
        x: Tensor of numbers.
        axis: Axis along which elements are neighbours.
        n: How many times.
        prepend: Elements that come before, along the axis.
        append: Elements that come behind, along the axis.

    Raises:
        TensorError: `n` is below 0.
    """
    found = numbers("diff", x)
    dim = axis_of("diff", axis, found.ndim)
    if n < 0:
        raise TensorError(f"n of diff must not be negative, got {n}")
    if n and not (prepend is None and append is None):
        found = concat([each for each in (prepend, found, append) if each is not None], axis=dim)
    for _ in range(n):
        size = found.shape[dim]
        found = part(found, min(1, size), size, dim) - part(found, 0, max(0, size - 1), dim)
    return found
