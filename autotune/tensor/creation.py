"""Creation of tensors from arrays and numbers."""

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
    """Create a tensor from a copy of the given elements.

    Args:
        obj: NumPy array, number, nested sequence of numbers, or tensor.
        dtype: Element type to convert to. Lists of real numbers become float32; arrays keep theirs.
        device: Device of the elements: the CPU.
        copy: Whether elements must be copied; all but those of tensors are, so that `False` is refused.

    Raises:
        TensorTypeError: The element type is not supported.
        TensorError: Elements would have to be copied although `copy` is `False`.
    """
    on_cpu("asarray", device)
    if isinstance(obj, Tensor):
        result = obj if dtype is None else operate("astype", obj, dtype)
        if copy is False and result is not obj:
            raise TensorError(f"elements are copied to become {result.dtype.name}, but copy is False; leave it out")
        return result
    if copy is False:
        raise TensorError(f"elements of {type(obj).__name__} are always copied, but copy is False; leave it out")
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise TensorTypeError(f"rows of an array must be equally long, got {obj!r}") from error
    if array.dtype == object or array.dtype.kind in "US":
        raise TensorTypeError(f"elements must be numbers, got {array.dtype} from {type(obj).__name__}")
    return known(np.array(array, dtype=element_type(obj, array, dtype), order="C"))


def element_type(obj: object, array: np.ndarray[Any, Any], dtype: object) -> DType:
    """Return the element type of the tensor that an object is converted to.

    Raises:
        TensorTypeError: The element type is not supported.
    """
    if dtype is not None:
        return as_dtype(dtype)
    if array.dtype == np.float64 and not isinstance(obj, np.ndarray):
        return float32
    try:
        return as_dtype(array.dtype)
    except TensorTypeError as error:
        raise TensorTypeError(f"{error}; say asarray(x, dtype=T.float32)") from error


def known(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a constant tensor that takes ownership of an array; the array becomes read-only."""
    array.setflags(write=False)
    return Tensor(Node(ARRAY, array.shape, as_dtype(array.dtype), array=array))


@operation
def from_dlpack(x: object, /, *, device: str | None = None, copy: Flag | None = None) -> Tensor:
    """Create a tensor from an array of another library; a tensor is returned unchanged."""
    return asarray(x if isinstance(x, Tensor) else np.from_dlpack(cast(Any, x)), device=device, copy=copy)


@operation
def scalar(name: str, value: Scalar, beside: DType) -> Tensor:
    """Return a number as a tensor of 0 dimensions, with the element type of the operand beside it."""
    dtype = scalar_dtype(name, value, beside)
    return Tensor(Node("full", (), dtype, attributes=(float(value) if is_float(dtype) else value,)))


@operation
def full(shape: Sizes, fill_value: Scalar, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Tensor filled with one number."""
    on_cpu("full", device)
    sizes = as_shape("full", shape)
    number = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    if not isinstance(number, (int, float)):
        raise TensorTypeError(f"what fills a tensor must be a number, got {type(fill_value).__name__}")
    target = as_dtype(type(number) if dtype is None else dtype)
    return operate("broadcast_to", operate("scalar", "full", number, target), sizes)


def filled(name: str, value: int, shape: Sizes, dtype: object, device: str | None) -> Tensor:
    """Return a tensor filled with 0 or 1, which every element type can hold; by default of float32."""
    on_cpu(name, device)
    target, sizes = as_dtype(float32 if dtype is None else dtype), as_shape(name, shape)
    number = value == 1 if target == bool else value
    return full(sizes, number if target == bool or is_integer(target) else float(value), dtype=target)


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
    """Tensor of unspecified elements; they are zeros, since a tensor cannot be written to."""
    return filled("empty", 0, shape, dtype, device)


@operation
def full_like(x: object, /, fill_value: Scalar, *, dtype: object = None, device: str | None = None) -> Tensor:
    """Tensor filled with one number, in the shape of another tensor."""
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
    """Tensor of unspecified elements, which are zeros, in the shape of another tensor."""
    return zeros_like(as_tensor("empty_like", x), dtype=dtype, device=device)
