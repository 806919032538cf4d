"""Tensors computed from indices: ranges, diagonals, triangles, grids; they are computed where they are read."""

import math
from typing import Literal

import numpy as np

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.creation import known, zeros
from autotune.tensor.devices import on_cpu
from autotune.tensor.dtypes import as_dtype, float32, int64, is_float, is_integer
from autotune.tensor.graph import Node, operation
from autotune.tensor.shapes import as_shape
from autotune.tensor.tensor import Tensor, as_tensor, operate


@operation
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: object = None,
    device: str | None = None,
) -> Tensor:
    """Numbers from `start` up to, and without, `stop`; with one argument from 0.

    Raises:
        TensorError: The step is 0.
    """
    on_cpu("arange", device)
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise TensorError("step of arange must not be 0")
    whole = all(isinstance(number, int) for number in (first, end, step))
    count = -((first - end) // step) if whole else math.ceil((end - first) / step)
    element_type = as_dtype((int64 if whole else float32) if dtype is None else dtype)
    counted = operate("astype", Tensor(Node("iota", (max(0, int(count)),), int64)), element_type)
    if is_integer(element_type) and not whole:
        raise TensorTypeError(f"numbers of arange as {element_type.name} must be whole, got {first}, {end}, {step}")
    if not counted.size:
        return counted
    return operate("add", operate("multiply", counted, step), first) if (first, step) != (0, 1) else counted


@operation
def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: object = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, which is included if `endpoint`.

    Raises:
        TensorTypeError: Elements are not real.
    """
    on_cpu("linspace", device)
    element_type, (count,) = as_dtype(float32 if dtype is None else dtype), as_shape("linspace", num)
    if not is_float(element_type):
        raise TensorTypeError(f"linspace must be of real numbers, got {element_type.name}; use arange")
    return known(np.linspace(start, stop, count, endpoint=endpoint).astype(element_type))


@operation
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = None, device: str | None = None
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere; by default of float32."""
    on_cpu("eye", device)
    columns = n_rows if n_cols is None else n_cols
    right, down = coordinates(n_rows, columns)
    offset = within(k, n_rows, columns)
    return operate("astype", right == (down + offset if offset else down), float32 if dtype is None else dtype)


@operation
def tril(x: object, /, *, k: int = 0) -> Tensor:
    """Lower triangle of matrices: zeros above the `k`-th diagonal."""
    matrix = as_tensor("tril", x)
    return operate("where", below("tril", matrix, k), matrix, zeros((), dtype=matrix.dtype))


@operation
def triu(x: object, /, *, k: int = 0) -> Tensor:
    """Upper triangle of matrices: zeros below the `k`-th diagonal."""
    matrix = as_tensor("triu", x)
    return operate("where", below("triu", matrix, k - 1), zeros((), dtype=matrix.dtype), matrix)


def below(name: str, matrix: Tensor, k: int) -> Tensor:
    """Return a mask of the elements on or below the `k`-th diagonal."""
    if matrix.ndim < 2:
        raise TensorError(f"what {name} takes must have 2 dimensions or more, shape is {matrix.shape}")
    right, down = coordinates(*matrix.shape[-2:])
    offset = within(k, *matrix.shape[-2:])
    return right <= (down + offset if offset else down)


def within(k: int, rows: int, columns: int) -> int:
    """Clamp the number of a diagonal to those of the matrix and the nearest one outside on either side."""
    return max(-rows, min(k, columns))


def coordinates(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return the column indices, of shape `(columns,)`, and the row indices, of shape `(rows, 1)`, of a matrix."""
    return arange(columns), operate("reshape", arange(rows), (rows, 1))


@operation
def meshgrid(*arrays: object, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Coordinate tensors of a grid: each vector broadcast along the axes of the others.

    Args:
        *arrays: Vectors, one for each axis.
        indexing: Order of the axes: ``ij`` is that of the vectors, ``xy`` swaps the first two.

    Raises:
        TensorError: An argument is no vector, or the order is unknown.
    """
    vectors = [as_tensor("meshgrid", x) for x in arrays]
    if indexing not in ("xy", "ij"):
        raise TensorError(f"indexing of meshgrid must be 'xy' or 'ij', got {indexing!r}")
    for vector in vectors:
        if vector.ndim != 1:
            raise TensorError(f"what meshgrid takes must have 1 dimension, shape is {vector.shape}")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shape = tuple(vectors[axis].shape[0] for axis in order)
    return tuple(
        operate("broadcast_to", operate("reshape", vector, [-1 if axis == d else 1 for axis in order]), shape)
        for d, vector in enumerate(vectors)
    )
