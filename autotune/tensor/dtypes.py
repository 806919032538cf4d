"""Element types, as NumPy dtypes, and their promotion by the rules of the array API standard."""

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from autotune.core.errors import TensorTypeError

DType = np.dtype[Any]
Scalar = builtins.bool | int | float
Flag = builtins.bool  # where `bool` is an element type

float32: DType = np.dtype("float32")
bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
int32: DType = np.dtype("int32")
int64: DType = np.dtype("int64")
bool: DType = np.dtype("bool")

FLOATS, INTEGERS = (bfloat16, float32), (int32, int64)  # narrow ones first
KNOWN = {"float32": float32, "bfloat16": bfloat16, "int32": int32, "int64": int64, "bool": bool}
SHORT = {"f32": float32, "bf16": bfloat16, "i32": int32, "i64": int64}
OF_PYTHON: dict[object, DType] = {builtins.bool: bool, int: int64, float: float32}
MLIR = {float32: "f32", bfloat16: "bf16", int32: "i32", int64: "i64", bool: "i1"}  # in a body; see `storage_of`


def as_dtype(dtype: object) -> DType:
    """Return the element type for a NumPy dtype, a name or a Python type.

    Raises:
        TensorTypeError: The element type is not supported.

    Example:
        >>> as_dtype("f32") == as_dtype(float) == np.dtype("float32")
        True
    """
    if isinstance(dtype, str) and dtype in SHORT:
        return SHORT[dtype]
    if isinstance(dtype, type) and dtype in OF_PYTHON:
        return OF_PYTHON[dtype]
    try:
        matched = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        matched = None
    if matched in MLIR and matched is not None:
        return next(known for known in MLIR if known == matched)
    raise TensorTypeError(f"dtype must be one of {', '.join(KNOWN)}; got {dtype if matched is None else matched.name}")


def storage_of(dtype: DType) -> str:
    """Return the MLIR element type of a dtype in memory: booleans are bytes."""
    return "i8" if dtype == bool else MLIR[dtype]


def is_float(dtype: DType) -> builtins.bool:
    """Return whether elements are real numbers."""
    return dtype in FLOATS


def is_integer(dtype: DType) -> builtins.bool:
    """Return whether elements are integers; booleans are not."""
    return dtype in INTEGERS


def promote(name: str, *dtypes: DType) -> DType:
    """Return the element type of a result: the widest of the operands, which must be of one kind.

    Args:
        name: Name of the operation, for the message.
        *dtypes: Element types of its operands.

    Raises:
        TensorTypeError: Operands are of different kinds.

    Example:
        >>> promote("add", int32, int64).name
        'int64'
    """
    for kind in (FLOATS, INTEGERS, (bool,)):
        if all(dtype in kind for dtype in dtypes):
            return max(dtypes, key=kind.index)
    names = ", ".join(dtype.name for dtype in dtypes)
    raise TensorTypeError(f"operands of {name} must be of one kind, real, whole or bool, they are {names}; use astype")


def scalar_dtype(name: str, value: Scalar, beside: DType) -> DType:
    """Return the element type that a Python number takes beside a tensor: the tensor's.

    Raises:
        TensorTypeError: The number is of a kind that the tensor cannot hold.
    """
    fits = (
        beside == bool
        if isinstance(value, builtins.bool)
        else is_float(beside) or (isinstance(value, int) and is_integer(beside))
    )
    if not fits:
        raise TensorTypeError(
            f"a number beside {beside.name} in {name} must be of that kind, got {value!r}; use astype on the tensor"
        )
    if is_integer(beside) and not np.iinfo(beside).min <= value <= np.iinfo(beside).max:
        raise TensorTypeError(f"a number beside {beside.name} in {name} must fit it, got {value}; use astype")
    return beside
