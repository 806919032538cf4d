"""Validation of arrays passed to compiled code: shape, element type, memory layout and range of integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.core.errors import AutotuneError, PayloadError
from autotune.core.payload import DTYPES, Argument, Array

CHOOSE = "choose another"
FEW = 16  # elements up to which Python compares faster than NumPy


class NotExactlyError(Exception):
    """An array does not have the shape and element type that a program is specialised for."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Requirements on an array that is passed as an argument.

    Attributes:
        name: Name of the argument.
        shape: Shape of the array; the program may drop its unit dimensions.
        dtype: Element type of the array, of the same width as the program's.
        bounds: Range ``[low, high)`` of integers that the array may hold; `None` for any.
        way_out: Remedy for integers out of bounds, the end of a sentence.
        error: Class of the error that refuses an array.
        is_exact: Whether an array of another shape or element type belongs to another program.
        title: Name of the argument in messages; empty for `name`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: tuple[int, int] | None = None
    way_out: str = CHOOSE
    error: type[AutotuneError] = PayloadError
    is_exact: bool = False
    title: str = ""

    @classmethod
    def of(cls, argument: Argument, way_out: str = CHOOSE) -> "Accepted":
        """Return the requirements of a payload's argument; integers must be in its range."""
        dtype, bounds = DTYPES[argument.dtype], None
        if dtype.kind == "i":
            low, high = argument.accepts or (int(argument.low), int(argument.high))
            limits = np.iinfo(dtype)
            bounds = None if low <= limits.min and high > limits.max else (low, high)
        return cls(argument.name, argument.shape, dtype, bounds, way_out)

    @classmethod
    def unbounded(cls, argument: Argument) -> "Accepted":
        """Return the requirements of an argument whose integers have been checked already."""
        return cls(argument.name, argument.shape, DTYPES[argument.dtype])

    def convert(self, value: object) -> Array:
        """Convert a value to an array that compiled code can read, without a copy where its layout fits.

        Raises:
            AutotuneError: The value has another shape or kind, is out of range, is an array of wider floats, which
                would be rounded (numbers and lists of Python may be), or an array of uint16, which may hold the bits
                of f16 or bf16.
            NotExactlyError: The value belongs to another program.
        """
        if self.is_exact and (type(value) is not np.ndarray or (value.shape, value.dtype) != (self.shape, self.dtype)):
            raise NotExactlyError
        title = self.title or self.name
        array = as_array(title, value, self.error)
        if array.shape != self.shape:
            raise self.error(f"{title} must have shape {self.shape}, got {array.shape}; reshape it")
        whole = self.dtype.kind == "i"
        if array.dtype.kind not in ("iub" if whole else "fiub") and array.dtype != self.dtype:
            kind = "whole" if whole else "real"
            raise self.error(f"{title} must hold {kind} numbers, got {array.dtype}; convert it")
        if isinstance(value, np.ndarray) and array.dtype.kind == "f" and array.dtype.itemsize > self.dtype.itemsize:
            way_out = f"it would be rounded; pass {self.name}.astype({self.dtype.name!r})"
            raise self.error(f"{title} must be {self.dtype.name}, got an array of {array.dtype}; {way_out}")
        if isinstance(value, np.ndarray) and array.dtype == np.uint16 and self.dtype.itemsize == 2 and not whole:
            way_out = f"pass its bits as {self.name}.view({self.dtype.name!r}), or its numbers as floats"
            raise self.error(f"{title} must be {self.dtype.name}, got an array of uint16; {way_out}")
        if array.dtype == bool and self.dtype.itemsize == 1 and array.flags.c_contiguous:
            return array.view(self.dtype)
        if whole:
            self.check(array)  # before the conversion truncates integers
        return np.require(array, self.dtype, ("C", "A"))

    def check(self, array: Array) -> None:
        """Refuse integers that are out of range: a compiled function might use them as indices, out of bounds.

        Raises:
            AutotuneError: An integer is out of range.
        """
        limits = np.iinfo(self.dtype)
        low, high = self.bounds or (int(limits.min), int(limits.max) + 1)
        if not lie_within(array, low, high):
            wrong = array[(array < low) | (array >= high)].flat[0]
            title = self.title or self.name
            raise self.error(f"{title} must be from {low} to {high - 1}, got {wrong}; {self.way_out}")


def as_array(name: str, value: object, error: type[AutotuneError]) -> Array:
    """Convert a value to an array of any element type.

    Raises:
        AutotuneError: The value is ragged, or has a mask, which compiled code would ignore.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise error(f"{name} must be an array without a mask, it has one; use .filled(..)")
    try:
        return np.asarray(value)
    except ValueError as wrong:
        raise error(f"{name} must be an array, {wrong}") from wrong


def lie_within(array: Array, low: int, high: int) -> bool:
    """Return whether all integers of a non-empty array are in ``[low, high)``."""
    if array.size <= FEW:
        values: list[int] = array.ravel().tolist()
        return low <= min(values) and max(values) < high
    if low == 0 and array.dtype.kind == "i" and array.dtype.isnative:  # viewed as unsigned, negatives exceed `high`
        return int(array.view(f"u{array.itemsize}").max()) < high
    return low <= int(array.min()) and int(array.max()) < high  # as int of Python: 2^63 does not fit int64


def is_frozen(array: Array) -> bool:
    """Return whether an array is immutable: it is read-only, and so is every buffer that it is a view of."""
    if array.flags.writeable:
        return False
    base = array.base
    if base is None or isinstance(base, np.ndarray):
        return base is None or is_frozen(base)
    try:
        return memoryview(base).readonly
    except TypeError:
        return False
