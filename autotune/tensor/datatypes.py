"""Properties of element types: limits, kinds, promotion; and the inspection interface of the namespace."""

from dataclasses import dataclass
from typing import cast

import ml_dtypes
import numpy as np

from autotune.core.errors import TensorTypeError
from autotune.tensor.devices import CPU, on_cpu
from autotune.tensor.dtypes import (
    DType,
    Flag,
    as_dtype,
    bfloat16,
    bool,
    float32,
    int32,
    int64,
    is_float,
    is_integer,
    promote,
    scalar_dtype,
)
from autotune.tensor.graph import operation
from autotune.tensor.tensor import Tensor

STANDARD = {"bool": bool, "int32": int32, "int64": int64, "float32": float32}  # of the standard
KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool,),
    "signed integer": (int32, int64),
    "unsigned integer": (),
    "integral": (int32, int64),
    "real floating": (bfloat16, float32),
    "complex floating": (),
    "numeric": (int32, int64, bfloat16, float32),
}
Kind = str | DType | tuple[str | DType, ...]


@dataclass(frozen=True)
class FloatLimits:
    """Limits of a real element type.

    Attributes:
        bits: Number of bits of an element.
        eps: Distance from 1 to the next larger number.
        max: Largest number.
        min: Smallest number.
        smallest_normal: Smallest positive normal number.
        dtype: Element type.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """Limits of an integer element type.

    Attributes:
        bits: Number of bits of an element.
        max: Largest number.
        min: Smallest number.
        dtype: Element type.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def dtype_of(value: object) -> DType:
    """Return the element type of a tensor or an array, or the one that the value names."""
    return as_dtype(value.dtype if isinstance(value, (Tensor, np.ndarray)) else value)


@operation
def finfo(type: object, /) -> FloatLimits:
    """Limits of a real element type.

    Raises:
        TensorTypeError: The element type is not real.
    """
    element_type = dtype_of(type)
    if not is_float(element_type):
        raise TensorTypeError(f"finfo must be of a real element type, got {element_type.name}; use iinfo")
    limits = ml_dtypes.finfo(element_type)
    numbers = (float(limits.eps), float(limits.max), float(limits.min), float(limits.smallest_normal))
    return FloatLimits(8 * element_type.itemsize, *numbers, element_type)


@operation
def iinfo(type: object, /) -> IntegerLimits:
    """Limits of an integer element type.

    Raises:
        TensorTypeError: The element type is not an integer type.
    """
    element_type = dtype_of(type)
    if not is_integer(element_type):
        raise TensorTypeError(f"iinfo must be of a whole element type, got {element_type.name}; use finfo")
    limits = np.iinfo(element_type)
    return IntegerLimits(limits.bits, int(limits.max), int(limits.min), element_type)


@operation
def isdtype(dtype: object, kind: Kind) -> Flag:
    """Whether an element type equals another one, or is of a kind, or matches any of several of these.

    Raises:
        TensorTypeError: The kind is unknown.
    """
    element_type = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(element_type in of_kind(each) for each in kinds)


def of_kind(kind: str | DType) -> tuple[DType, ...]:
    """Return the element types of a kind.

    Raises:
        TensorTypeError: The kind is unknown.
    """
    if not isinstance(kind, str):
        return (as_dtype(kind),)
    if kind not in KINDS:
        raise TensorTypeError(f"kind must be one of {', '.join(KINDS)}; got {kind}")
    return KINDS[kind]


@operation
def can_cast(from_: object, to: object, /) -> Flag:
    """Whether an element type may be promoted to another one."""
    source, target = dtype_of(from_), as_dtype(to)
    try:
        return promote("can_cast", source, target) == target
    except TensorTypeError:
        return False


@operation
def result_type(*arrays_and_dtypes: object) -> DType:
    """Element type that tensors, element types and numbers promote to.

    Raises:
        TensorTypeError: Operands are of several kinds, or all are numbers.
    """
    numbers = [each for each in arrays_and_dtypes if isinstance(each, (int, float))]  # True and False among them
    dtypes = [dtype_of(each) for each in arrays_and_dtypes if not isinstance(each, (int, float))]
    if not dtypes:
        raise TensorTypeError("result_type must be of a tensor or an element type, got none; add one")
    promoted = promote("result_type", *dtypes)
    for number in numbers:
        scalar_dtype("result_type", number, promoted)
    return promoted


class NamespaceInfo:
    """Inspection interface of the array API standard: element types, devices and capabilities."""

    def capabilities(self) -> dict[str, Flag | None]:
        """Capabilities of the namespace: shapes never depend on elements."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def devices(self) -> tuple[str, ...]:
        """Supported devices."""
        return (CPU,)

    def default_device(self) -> str:
        """Default device of a tensor."""
        return CPU

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """Default element types of real numbers, integers and indices."""
        on_cpu("default_dtypes", device)
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Element types of the given kinds, by name; without bfloat16, which the standard lacks."""
        on_cpu("dtypes", device)
        return {name: dtype for name, dtype in STANDARD.items() if kind is None or isdtype(dtype, cast(Kind, kind))}


def namespace_info() -> NamespaceInfo:
    """Inspection interface of the namespace; ``__array_namespace_info__`` of the standard."""
    return NamespaceInfo()
