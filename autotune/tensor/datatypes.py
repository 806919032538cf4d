"""Questions about element types: limits, kinds, which of them meet; and what the namespace says of itself."""

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

STANDARD = {"bool": bool, "int32": int32, "int64": int64, "float32": float32}  # what the standard has of ours
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
    """Limits of real numbers of an element type.

    Attributes:
        bits: Number of bits of an element.
        eps: Distance from 1 to the next larger number.
        max: Largest number.
        min: Least number.
        smallest_normal: Least number above 0 of full precision.
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
    """Limits of whole numbers of an element type.

    Attributes:
        bits: Number of bits of an element.
        max: Largest number.
        min: Least number.
        dtype: Element type.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def dtype_of(value: object) -> DType:
    """The element type of a tensor or an array, or the one that is named."""
    return as_dtype(value.dtype if isinstance(value, (Tensor, np.ndarray)) else value)


@operation
def finfo(type: object, /) -> FloatLimits:
    """Limits of real numbers.

    Raises:
        TensorTypeError: Elements are not real.
    """
    wanted = dtype_of(type)
    if not is_float(wanted):
        raise TensorTypeError(f"finfo must be of a real element type, got {wanted.name}; use iinfo")
    found = ml_dtypes.finfo(wanted)
    numbers = (float(found.eps), float(found.max), float(found.min), float(found.smallest_normal))
    return FloatLimits(8 * wanted.itemsize, *numbers, wanted)


@operation
def iinfo(type: object, /) -> IntegerLimits:
    """Limits of whole numbers.

    Raises:
        TensorTypeError: Elements are not whole.
    """
    wanted = dtype_of(type)
    if not is_integer(wanted):
        raise TensorTypeError(f"iinfo must be of a whole element type, got {wanted.name}; use finfo")
    found = np.iinfo(wanted)
    return IntegerLimits(found.bits, int(found.max), int(found.min), wanted)


@operation
def isdtype(dtype: object, kind: Kind) -> Flag:
    """Whether an element type is another one, or of a kind, or one of several of these.

    Raises:
        TensorTypeError: There is no such kind.
    """
    given = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(given in of_kind(each) for each in kinds)


def of_kind(kind: str | DType) -> tuple[DType, ...]:
    """The element types of a kind.

    Raises:
        TensorTypeError: There is no such kind.
    """
    if not isinstance(kind, str):
        return (as_dtype(kind),)
    if kind not in KINDS:
        raise TensorTypeError(f"kind must be one of {', '.join(KINDS)}; got {kind}")
    return KINDS[kind]


@operation
def can_cast(from_: object, to: object, /) -> Flag:
    """Whether an element type is converted to another where both meet."""
    source, target = dtype_of(from_), as_dtype(to)
    try:
        return promote("can_cast", source, target) == target
    except TensorTypeError:
        return False


@operation
def result_type(*arrays_and_dtypes: object) -> DType:
    """The element type in which tensors, element types and numbers meet.

    Raises:
        TensorTypeError: Operands are of several kinds, or all are numbers.
    """
    numbers = [each for each in arrays_and_dtypes if isinstance(each, (int, float))]  # True and False among them
    others = [dtype_of(each) for each in arrays_and_dtypes if not isinstance(each, (int, float))]
    if not others:
        raise TensorTypeError("result_type must be of a tensor or an element type, got none; add one")
    found = promote("result_type", *others)
    for number in numbers:
        scalar_dtype("result_type", number, found)
    return found


class NamespaceInfo:
    """What the standard asks of a namespace: element types, devices, and what depends on elements."""

    def capabilities(self) -> dict[str, Flag | None]:
        """What shapes may depend on: never on elements."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def devices(self) -> tuple[str, ...]:
        """Every device that tensors lie on."""
        return (CPU,)

    def default_device(self) -> str:
        """The default device of a tensor."""
        return CPU

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """The element types of numbers of Python, and of indices."""
        on_cpu("default_dtypes", device)
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: object = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Element types by name, of some kinds; bfloat16 is not the standard's, and not among them."""
        on_cpu("dtypes", device)
        return {name: dtype for name, dtype in STANDARD.items() if kind is None or isdtype(dtype, cast(Kind, kind))}


def namespace_info() -> NamespaceInfo:
    """What the namespace says of itself; ``__array_namespace_info__`` of the standard."""
    return NamespaceInfo()
