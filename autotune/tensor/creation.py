"""Tensors from arrays and numbers."""

from typing import Any, cast

import numpy as np

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.devices import on_cpu
from autotune.tensor.dtypes import DType, Flag, Scalar, as_dtype, bool, float32, is_float, is_integer, scalar_dtype
from autotune.tensor.graph import ARRAY, Node, operation
from autotune.tensor.shapes import Sizes, as_shape
from autotune.tensor.tensor import Tensor, as_tensor, operate


@operation
def asarray(obj: object, /, *, dtype: object = None, device: str | None = None, copy: Flag | None = None) -> Tensor:
    """A tensor of known elements, which are copied.

    Args:
        obj: Array of NumPy, number, nested sequence of numbers, or tensor.
        dtype: Element type to convert to. Lists of real numbers become float32; arrays keep theirs.
        device: Device of the elements: the CPU.
        copy: Whether elements must be copied; all but those of tensors are, so that `False` is refused.

    Raises:
        TensorTypeError: The elements are of a type that tensors do not have.
        TensorError: Elements must not be copied, and must be.
    """
    on_cpu("asarray", device)
    if isinstance(obj, Tensor):
        found = obj if dtype is None else operate("astype", obj, dtype)
        if copy is False and found is not obj:
            raise TensorError(f"elements are copied to become {found.dtype.name}, but copy is False; leave it out")
        return found
    if copy is False:
        raise TensorError(f"elements of {type(obj).__name__} are always copied, but copy is False; leave it out")
    try:
        given = np.asarray(obj)
    except ValueError as error:
        raise TensorTypeError(f"rows of an array must be equally long, got {obj!r}") from error
    if given.dtype == object or given.dtype.kind in "US":
        raise TensorTypeError(f"elements must be numbers, got {given.dtype} from {type(obj).__name__}")
    return known(np.array(given, dtype=element_type(obj, given, dtype), order="C"))


def element_type(obj: object, given: np.ndarray[Any, Any], dtype: object) -> DType:
    """The element type of a tensor that is made of an object.

    Raises:
        TensorTypeError: Tensors have no such elements.
    """
    if dtype is not None:
        return as_dtype(dtype)
    if given.dtype == np.float64 and not isinstance(obj, np.ndarray):
        return float32
    try:
        return as_dtype(given.dtype)
    except TensorTypeError as error:
        raise TensorTypeError(f"{error}; say asarray(x, dtype=T.float32)") from error


def known(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor of an array that is its own."""
    array.setflags(write=False)
    return Tensor(Node(ARRAY, array.shape, as_dtype(array.dtype), array=array))


@operation
def from_dlpack(x: object, /, *, device: str | None = None, copy: Flag | None = None) -> Tensor:
    """A tensor of what another library's array holds; a tensor is given as it is."""
    return asarray(x if isinstance(x, Tensor) else np.from_dlpack(cast(Any, x)), device=device, copy=copy)


@operation
def scalar(what: str, value: Scalar, beside: DType) -> Tensor:
    """A number beside a tensor."""
    dtype = scalar_dtype(what, value, beside)
    return Tensor(Node("full", (), dtype, attributes=(float(value) if is_float(dtype) else value,)))


@operation
def full(shape: Sizes, fill_value: Scalar, *, dtype: object = None, device: str | None = None) -> Tensor:
    """One number everywhere."""
    on_cpu("full", device)
    sizes = as_shape("full", shape)
    number = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    if not isinstance(number, (int, float)):
        raise TensorTypeError(f"what fills a tensor must be a number, got {type(fill_value).__name__}")
    wanted = as_dtype(type(number) if dtype is None else dtype)
    return operate("broadcast_to", operate("scalar", "full", number, wanted), sizes)


def filled(what: str, value: int, shape: Sizes, dtype: object, device: str | None) -> Tensor:
    """A number everywhere that all element types have."""
    on_cpu(what, device)
    wanted, sizes = as_dtype(float32 if dtype is None else dtype), as_shape(what, shape)
    number = value == 1 if wanted == bool else value
    return full(sizes, number if wanted == bool or is_integer(wanted) else float(value), dtype=wanted)


@operation
def zeros(shape: Sizes, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Zeros, by default of float32."""
    return filled("zeros", 0, shape, dtype, device)


@operation
def ones(shape: Sizes, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Ones, by default of float32."""
    return filled("ones", 1, shape, dtype, device)


@operation
def empty(shape: Sizes, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Elements of any value, which are zeros, since a tensor cannot be written to."""
    return filled("empty", 0, shape, dtype, device)


@operation
def full_like(x: object, /, fill_value: Scalar, *, dtype: object = None, device: str | None = None) -> Tensor:
    """One number everywhere, in the shape of another tensor."""
    like = as_tensor("full_like", x)
    return full(like.shape, fill_value, dtype=like.dtype if dtype is None else dtype, device=device)


@operation
def zeros_like(x: object, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Zeros in the shape of another tensor."""
    like = as_tensor("zeros_like", x)
    return zeros(like.shape, dtype=like.dtype if dtype is None else dtype, device=device)


@operation
def ones_like(x: object, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Ones in the shape of another tensor."""
    like = as_tensor("ones_like", x)
    return ones(like.shape, dtype=like.dtype if dtype is None else dtype, device=device)


@operation
def empty_like(x: object, /, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Elements of any value, which are zeros, in the shape of another tensor."""
    return zeros_like(as_tensor("empty_like", x), dtype=dtype, device=device)
