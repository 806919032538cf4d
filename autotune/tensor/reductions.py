"""Reductions along axes: sums, products, extrema, means, variances, argmax and argmin."""

import math

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.dtypes import Flag, as_dtype, bool, int32, int64, is_float
from autotune.tensor.elementwise import astype, where
from autotune.tensor.graph import Node, operation
from autotune.tensor.manipulation import reshape, view
from autotune.tensor.shapes import axes_of, without
from autotune.tensor.tensor import Axes, Tensor, as_tensor, operate


def fold(kind: str, x: Tensor, axis: Axes, keepdims: Flag) -> Tensor:
    """Reduce the elements along axes.

    Args:
        kind: ``sum``, ``prod``, ``max``, ``min``, ``all`` or ``any``; ``largest`` is a maximum that assumes no NaN.
        x: Tensor to reduce.
        axis: Axes to reduce; all for `None`.
        keepdims: Whether to keep the reduced axes, with size 1.

    Raises:
        TensorError: A maximum or minimum is of no elements.
    """
    axes = axes_of(kind, axis, x.ndim)
    if kind in ("max", "min", "largest") and 0 in (x.shape[dim] for dim in axes):
        raise TensorError(f"{kind} must be of one element or more, shape {x.shape} has none along axis {axis}")
    reduced_shape = without(x.shape, axes)
    if {x.shape[dim] for dim in axes} <= {1}:
        dims = [None if dim in axes else dim - len([a for a in axes if a < dim]) for dim in range(x.ndim)]
        result = view(x, reduced_shape, dims)
    else:
        result = Tensor(Node("fold", reduced_shape, x.dtype, (x.node,), attributes=(kind, axes)))
    return reshape(result, without(x.shape, axes, keepdims=True)) if keepdims else result


def numbers(name: str, x: object, *, real: Flag = False) -> Tensor:
    """Convert an operand to a tensor of numbers, or of real numbers only.

    Raises:
        TensorTypeError: The operand is of another kind.
    """
    operand = as_tensor(name, x)
    if operand.dtype == bool or (real and not is_float(operand.dtype)):
        raise TensorTypeError(f"{name} must be of {'real ' * real}numbers, got {operand.dtype.name}; use astype")
    return operand


def widened(name: str, x: object, dtype: object) -> Tensor:
    """Convert the operand of a sum or product to its accumulator type: by default int64 for int32."""
    operand = numbers(name, x)
    return astype(operand, (int64 if operand.dtype == int32 else operand.dtype) if dtype is None else as_dtype(dtype))


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
    """Maximum along axes; NaN if an element is NaN."""
    return fold("max", numbers("max", x), axis, keepdims)


@operation
def min(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Minimum along axes; NaN if an element is NaN."""
    return fold("min", numbers("min", x), axis, keepdims)


@operation
def all(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Whether all elements along axes are nonzero."""
    return fold("all", astype(as_tensor("all", x), bool), axis, keepdims)


@operation
def any(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Whether any element along axes is nonzero."""
    return fold("any", astype(as_tensor("any", x), bool), axis, keepdims)


@operation
def count_nonzero(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Number of nonzero elements along axes."""
    return fold("sum", astype(astype(as_tensor("count_nonzero", x), bool), int64), axis, keepdims)


@operation
def mean(x: object, /, axis: Axes = None, *, keepdims: Flag = False) -> Tensor:
    """Mean along axes."""
    values = numbers("mean", x, real=True)
    total = fold("sum", values, axis, keepdims)
    return total / float(count("mean", values, axis))


@operation
def var(x: object, /, axis: Axes = None, *, correction: float = 0.0, keepdims: Flag = False) -> Tensor:
    """Variance along axes: the sum of squared deviations from the mean, divided by the count minus `correction`."""
    values = numbers("var", x, real=True)
    deviations = values - mean(values, axis, keepdims=True)
    total = fold("sum", deviations * deviations, axis, keepdims)
    return total / (count("var", values, axis) - float(correction))


@operation
def std(x: object, /, axis: Axes = None, *, correction: float = 0.0, keepdims: Flag = False) -> Tensor:
    """Standard deviation along axes."""
    return operate("sqrt", var(numbers("std", x, real=True), axis, correction=correction, keepdims=keepdims))


def count(name: str, x: Tensor, axis: Axes) -> int:
    """Return the number of elements that are reduced into one."""
    return math.prod(x.shape[dim] for dim in axes_of(name, axis, x.ndim))


@operation
def argmax(x: object, /, *, axis: int | None = None, keepdims: Flag = False) -> Tensor:
    """Index of the first maximum along an axis, of all elements for `None`; of the first NaN, if there is one."""
    return first_index("argmax", x, axis, keepdims)


@operation
def argmin(x: object, /, *, axis: int | None = None, keepdims: Flag = False) -> Tensor:
    """Index of the first minimum along an axis, of all elements for `None`; of the first NaN, if there is one."""
    return first_index("argmin", x, axis, keepdims)


def first_index(name: str, x: object, axis: int | None, keepdims: Flag) -> Tensor:
    """Return the first index of an extremum: a maximum or minimum, then the least matching index.

    A single reduction with two results would not vectorize.
    """
    values = numbers(name, x)
    flat = reshape(values, -1) if axis is None else values
    (dim,) = axes_of(name, 0 if axis is None else axis, flat.ndim)
    size = flat.shape[dim]
    extremum = fold(name.removeprefix("arg"), flat, dim, keepdims=True)
    is_extremum = flat == extremum
    if is_float(flat.dtype):
        is_extremum = is_extremum | operate("isnan", flat)
    along = [size if d == dim else 1 for d in range(flat.ndim)]
    indices = fold("min", where(is_extremum, reshape(operate("arange", size), along), size), dim, keepdims)
    return reshape(indices, [1] * values.ndim) if axis is None and keepdims else indices
