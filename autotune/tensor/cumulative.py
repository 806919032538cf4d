"""Cumulative sums and products, and differences of adjacent elements."""

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
    """Cumulative sum along an axis, computed in log2 of its size steps.

    Args:
        x: Tensor to sum.
        axis: Axis to sum along; `None` is allowed for a tensor of one dimension.
        dtype: Element type of the sums; by default that of `sum`.
        include_initial: Whether to prepend a 0.
    """
    sums, dim = so_far("cumulative_sum", "add", widened("cumulative_sum", x, dtype), axis)
    return led(0, sums, dim) if include_initial else sums


@operation
def cumulative_prod(
    x: object, /, *, axis: int | None = None, dtype: object = None, include_initial: Flag = False
) -> Tensor:
    """Cumulative product along an axis, as `cumulative_sum`; `include_initial` prepends a 1."""
    products, dim = so_far("cumulative_prod", "multiply", widened("cumulative_prod", x, dtype), axis)
    return led(1, products, dim) if include_initial else products


def so_far(name: str, op: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """Return the inclusive scan of a tensor, and the axis that it runs along.

    Each step combines every element with the one 1, 2, 4, 8 .. before it (Hillis and Steele, 1986).

    Raises:
        TensorError: There are several axes, and `axis` is `None`.
    """
    if axis is None and x.ndim != 1:
        raise TensorError(f"an axis must be named for {name} of shape {x.shape}; add axis=")
    dim = axis_of(name, 0 if axis is None else axis, x.ndim)
    size, step, scanned = x.shape[dim], 1, x
    while step < size:
        combined = operate(op, part(scanned, step, size, dim), part(scanned, 0, size - step, dim))
        scanned, step = concat([part(scanned, 0, step, dim), combined], axis=dim), 2 * step
    return scanned, dim


def led(first: int, x: Tensor, axis: int) -> Tensor:
    """Prepend a number along an axis."""
    shape = tuple(1 if d == axis else size for d, size in enumerate(x.shape))
    return concat([full(shape, first, dtype=x.dtype), x], axis=axis)


@operation
def diff(x: object, /, *, axis: int = -1, n: int = 1, prepend: object = None, append: object = None) -> Tensor:
    """N-th discrete difference of adjacent elements along an axis.

    Args:
        x: Tensor of numbers.
        axis: Axis to take differences along.
        n: Number of times that differences are taken.
        prepend: Elements to prepend along the axis first.
        append: Elements to append along the axis first.

    Raises:
        TensorError: `n` is below 0.
    """
    values = numbers("diff", x)
    dim = axis_of("diff", axis, values.ndim)
    if n < 0:
        raise TensorError(f"n of diff must not be negative, got {n}")
    if n and not (prepend is None and append is None):
        values = concat([each for each in (prepend, values, append) if each is not None], axis=dim)
    for _ in range(n):
        size = values.shape[dim]
        values = part(values, min(1, size), size, dim) - part(values, 0, max(0, size - 1), dim)
    return values
