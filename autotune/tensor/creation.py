"""Tensors from arrays and numbers. What follows from its place alone, as `arange`, is computed where it is read."""

import math
from typing import Any

import numpy as np

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.dtypes import DType, Scalar, as_dtype, bool, float32, int64, is_float, is_integer, scalar_dtype
from autotune.tensor.graph import ARRAY, Node, operation
from autotune.tensor.operators import operate
from autotune.tensor.shapes import Sizes, as_shape
from autotune.tensor.tensor import Tensor, as_tensor


@operation
def asarray(value: object, *, dtype: object = None) -> Tensor:
    """A tensor of known elements, which are copied.

    Args:
        value: Array of NumPy, number, nested sequence of numbers, or tensor.
        dtype: Element type to convert to. Lists of real numbers become float32; arrays keep theirs.

    Raises:
        TensorTypeError: The elements are of a type that tensors do not have.
    """
    if isinstance(value, Tensor):
        return value if dtype is None else operate("astype", value, dtype)
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise TensorTypeError(f"rows of an array must be equally long, got {value!r}") from error
    if given.dtype == object or given.dtype.kind in "US":
        raise TensorTypeError(f"elements must be numbers, got {given.dtype} from {type(value).__name__}")
    if dtype is not None:
        found = as_dtype(dtype)
    elif given.dtype == np.float64 and not isinstance(value, np.ndarray):
        found = float32
    else:
        try:
            found = as_dtype(given.dtype)
        except TensorTypeError as error:
            raise TensorTypeError(f"{error}; say asarray(x, dtype=T.float32)") from error
    return known(np.array(given, dtype=found, order="C"))


def known(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor of an array that is its own."""
    array.setflags(write=False)
    return Tensor(Node(ARRAY, array.shape, as_dtype(array.dtype), array=array))


@operation
def scalar(what: str, value: Scalar, beside: DType) -> Tensor:
    """A number beside a tensor."""
    dtype = scalar_dtype(what, value, beside)
    return Tensor(Node("full", (), dtype, attributes=(float(value) if is_float(dtype) else value,)))


@operation
def full(shape: Sizes, value: Scalar, *, dtype: object = None) -> Tensor:
    """One number everywhere."""
    sizes = as_shape("full", shape)
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (int, float)):
        raise TensorTypeError(f"what fills a tensor must be a number, got {type(value).__name__}")
    wanted = as_dtype(type(number) if dtype is None else dtype)
    return operate("broadcast_to", operate("scalar", "full", number, wanted), sizes)


@operation
def zeros(shape: Sizes, *, dtype: object = float32) -> Tensor:
    """Zeros."""
    wanted, sizes = as_dtype(dtype), as_shape("zeros", shape)
    return full(sizes, False if wanted == bool else 0, dtype=wanted)


@operation
def ones(shape: Sizes, *, dtype: object = float32) -> Tensor:
    """Ones."""
    wanted, sizes = as_dtype(dtype), as_shape("ones", shape)
    return full(sizes, True if wanted == bool else 1, dtype=wanted)


@operation
def full_like(x: object, value: Scalar, *, dtype: object = None) -> Tensor:
    """One number everywhere, in the shape of another tensor."""
    like = as_tensor("full_like", x)
    return full(like.shape, value, dtype=like.dtype if dtype is None else dtype)


@operation
def zeros_like(x: object, *, dtype: object = None) -> Tensor:
    """Zeros in the shape of another tensor."""
    like = as_tensor("zeros_like", x)
    return zeros(like.shape, dtype=like.dtype if dtype is None else dtype)


@operation
def ones_like(x: object, *, dtype: object = None) -> Tensor:
    """Ones in the shape of another tensor."""
    like = as_tensor("ones_like", x)
    return ones(like.shape, dtype=like.dtype if dtype is None else dtype)


@operation
def arange(start: float, stop: float | None = None, step: float = 1, *, dtype: object = None) -> Tensor:
    """Numbers from `start` on, below `stop`; with one argument from 0 on.

    Raises:
        TensorError: The step is 0.
    """
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise TensorError("step of arange must not be 0")
    count = max(0, math.ceil((end - first) / step))
    whole = all(isinstance(number, int) for number in (first, end, step))
    wanted = as_dtype((int64 if whole else float32) if dtype is None else dtype)
    counted = operate("astype", Tensor(Node("iota", (count,), int64)), wanted)
    if is_integer(wanted) and not whole:
        raise TensorTypeError(f"numbers of arange as {wanted.name} must be whole, got {first}, {end}, {step}")
    return operate("add", operate("multiply", counted, step), first) if (first, step) != (0, 1) else counted


@operation
def eye(rows: int, columns: int | None = None, *, k: int = 0, dtype: object = float32) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    right, down = places(rows, rows if columns is None else columns)
    return operate("astype", right == (down + k if k else down), dtype)


@operation
def tril(x: object, *, k: int = 0) -> Tensor:
    """Matrices with zeros above a diagonal."""
    matrix = as_tensor("tril", x)
    return operate("where", below("tril", matrix, k), matrix, zeros((), dtype=matrix.dtype))


@operation
def triu(x: object, *, k: int = 0) -> Tensor:
    """Matrices with zeros below a diagonal."""
    matrix = as_tensor("triu", x)
    return operate("where", below("triu", matrix, k - 1), zeros((), dtype=matrix.dtype), matrix)


def below(what: str, matrix: Tensor, k: int) -> Tensor:
    """Which places of a matrix are on a diagonal or below it."""
    if matrix.ndim < 2:
        raise TensorError(f"what {what} takes must have 2 dimensions or more, shape is {matrix.shape}")
    right, down = places(*matrix.shape[-2:])
    return right <= (down + k if k else down)


def places(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """How far right and how far down a place of a matrix is."""
    return arange(columns), operate("reshape", arange(rows), (rows, 1))
