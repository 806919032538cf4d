"""Operations that fold axes away: sums, products, extrema, means, and where an extremum is."""

import math

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.dtypes import Flag, as_dtype, bool, int32, int64, is_float
from autotune.tensor.elementwise import astype, where
from autotune.tensor.graph import Node, operation
from autotune.tensor.manipulation import reshape, view
from autotune.tensor.shapes import axes_of, without
from autotune.tensor.tensor import Axes, Tensor, as_tensor, operate


def fold(what: str, x: Tensor, axis: Axes, keepdims: Flag) -> Tensor:
    """Combine the elements along axes.

    Args:
        what: ``sum``, ``prod``, ``max``, ``min``, ``all`` or ``any``; ``largest`` is a maximum where NaN cannot be.
        x: Tensor to fold.
        axis: Axes to fold away; all for `None`.
        keepdims: Whether they stay, with size 1.

    Raises:
        TensorError: There is nothing to take a maximum or minimum of.
    """
    axes = axes_of(what, axis, x.ndim)
    if what in ("max", "min", "largest") and 0 in (x.shape[dim] for dim in axes):
        raise TensorError(f"{what} must be of one element or more, shape {x.shape} has none along axis {axis}")
    left = without(x.shape, axes)
    if {x.shape[dim] for dim in axes} <= {1}:
        kept = [None if dim in axes else dim - len([a for a in axes if a < dim]) for dim in range(x.ndim)]
        found = view(x, left, kept)
    else:
        found = Tensor(Node("fold", left, x.dtype, (x.node,), attributes=(what, axes)))
    return reshape(found, without(x.shape, axes, keepdims=True)) if keepdims else found


def numbers(what: str, x: object, *, real: Flag = False) -> Tensor:
    """An operand of numbers, or of real ones.

    Raises:
        TensorTypeError: The operand is of another kind.
    """
    given = as_tensor(what, x)
    if given.dtype == bool or (real and not is_float(given.dtype)):
        raise TensorTypeError(f"{what} must be of {'real ' * real}numbers, got {given.dtype.name}; use astype")
    return given


def widened(what: str, x: object, dtype: object) -> Tensor:
    """What a sum or product is computed in: sums of int32 are int64 by default."""
    given = numbers(what, x)
    return astype(given, (int64 if given.dtype == int32 else given.dtype) if dtype is None else as_dtype(dtype))


@operation
def sum(x: object, /, axis: Axes = None, *, dtype: object = None, keepdims: Flag = False) -> Tensor:
    """Sum along axes."""
    return fold("sum", widened("sum", x, dtype), axis, keepdims)


@operation
def prod(x: object, /, axis: Axes = None, *, dtype: object = None, keepdims: Flag = False) -> Tensor:
    """Product along axes."""
    return fold("prod", widened("prod", x, dtype), axis, keepdims)


@operation
def max(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Maximum along axes; NaN where there is one."""
    return fold("max", numbers("max", x), axis, keepdims)


@operation
def min(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Minimum along axes; NaN where there is one."""
    return fold("min", numbers("min", x), axis, keepdims)


@operation
def all(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Whether every element along axes holds."""
    return fold("all", astype(as_tensor("all", x), bool), axis, keepdims)


@operation
def any(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Whether an element along axes holds."""
    return fold("any", astype(as_tensor("any", x), bool), axis, keepdims)


@operation
def count_nonzero(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """How many elements along axes are not 0."""
    return fold("sum", astype(astype(as_tensor("count_nonzero", x), bool), int64), axis, keepdims)


@operation
def mean(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Mean along axes."""
    given = numbers("mean", x, real=True)
    total = fold("sum", given, axis, keepdims)
    return total / float(count("mean", given, axis))


@operation
def var(x: object, /, axis: Axes = None, *, correction: float = 0.0, keepdims: Flag = False) -> Tensor:
    """Variance along axes: squares of what is off the mean, summed, over their number less `correction`."""
    given = numbers("var", x, real=True)
    off = given - mean(given, axis, keepdims=True)
    total = fold("sum", off * off, axis, keepdims)
    return total / (count("var", given, axis) - float(correction))


@operation
def std(x: object, /, axis: Axes = None, *, correction: float = 0.0, keepdims: Flag = False) -> Tensor:
    """Standard deviation along axes."""
    return operate("sqrt", var(numbers("std", x, real=True), axis, correction=correction, keepdims=keepdims))


def count(what: str, x: Tensor, axis: Axes) -> int:
    """How many elements are folded into one."""
    return math.prod(x.shape[dim] for dim in axes_of(what, axis, x.ndim))


@operation
def argmax(x: object, /, *, axis: int | None = None, keepdims: Flag = False) -> Tensor:
    """Index of the first maximum along an axis, of all elements for `None`; of the first NaN, if there is one."""
    return first_index("argmax", x, axis, keepdims)


@operation
def argmin(x: object, /, *, axis: int | None = None, keepdims: Flag = False) -> Tensor:
    """Index of the first minimum along an axis, of all elements for `None`; of the first NaN, if there is one."""
    return first_index("argmin", x, axis, keepdims)


def first_index(what: str, x: object, axis: int | None, keepdims: Flag) -> Tensor:
    """The first index that holds an extremum: two results of one fold would not vectorize."""
    given = numbers(what, x)
    flat = reshape(given, -1) if axis is None else given
    (dim,) = axes_of(what, 0 if axis is None else axis, flat.ndim)
    size = flat.shape[dim]
    extremum = fold(what.removeprefix("arg"), flat, dim, keepdims=True)
    wanted = flat == extremum
    if is_float(flat.dtype):
        wanted = wanted | operate("isnan", flat)
    along = [size if d == dim else 1 for d in range(flat.ndim)]
    found = fold("min", where(wanted, reshape(operate("arange", size), along), size), dim, keepdims)
    return reshape(found, [1] * given.ndim) if axis is None and keepdims else found
