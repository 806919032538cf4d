"""Arrays as compiled code reads them: what one must be, where its elements lie, which whole numbers it may hold."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.core.errors import AutotuneError, PayloadError
from autotune.core.payload import DTYPES, Argument, Array

CHOOSE = "choose another"
FEW = 16  # elements that Python compares sooner than NumPy


class NotExactlyError(Exception):
    """An array is not of the shape and element type that a program is specialised to."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an array must be that is given as an argument.

    Attributes:
        name: Name of the argument.
        shape: Shape of the array; the program may know it without sizes of 1.
        dtype: Element type of the array, as wide as the one that the program reads.
        bounds: Least whole number it may hold, and the one above the largest; `None` where any will do.
        way_out: What a user does whose numbers are out of bounds, the end of a sentence.
        error: Kind of error that refuses an array.
        is_exact: Whether an array of another shape or element type is for another program.
        title: What messages call the argument; empty for its name.
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
        """What an argument of a payload takes: whole numbers in its range."""
        dtype, bounds = DTYPES[argument.dtype], None
        if dtype.kind == "i":
            low, high = argument.accepts or (int(argument.low), int(argument.high))
            held = np.iinfo(dtype)
            bounds = None if low <= held.min and high > held.max else (low, high)
        return cls(argument.name, argument.shape, dtype, bounds, way_out)

    @classmethod
    def unbounded(cls, argument: Argument) -> "Accepted":
        """What an argument takes whose numbers have been looked at."""
        return cls(argument.name, argument.shape, DTYPES[argument.dtype])

    def convert(self, value: object) -> Array:
        """A value as an array that compiled code can read: itself where it lies so, else a copy.

        Raises:
            AutotuneError: The value is of another shape or kind, out of range, or an array of wider numbers, which
                would be rounded (numbers and lists of Python are not), or one of uint16, which may be the bits of f16
                or bf16.
            NotExactlyError: The value is for another program.
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
            self.check(array)  # before it is narrowed
        return np.require(array, self.dtype, ("C", "A"))

    def check(self, array: Array) -> None:
        """Refuse whole numbers that are out of range: a compiled function would read memory that is not its own.

        Raises:
            AutotuneError: A number is.
        """
        held = np.iinfo(self.dtype)
        low, high = self.bounds or (int(held.min), int(held.max) + 1)
        if not lie_within(array, low, high):
            wrong = array[(array < low) | (array >= high)].flat[0]
            title = self.title or self.name
            raise self.error(f"{title} must be from {low} to {high - 1}, got {wrong}; {self.way_out}")


def as_array(name: str, value: object, error: type[AutotuneError]) -> Array:
    """A value as an array of any element type.

    Raises:
        AutotuneError: The value is ragged or has a mask, which compiled code would not see.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise error(f"{name} must be an array without a mask, it has one; use .filled(..)")
    try:
        return np.asarray(value)
    except ValueError as wrong:
        raise error(f"{name} must be an array, {wrong}") from wrong


def lie_within(array: Array, low: int, high: int) -> bool:
    """Return whether all whole numbers of an array, which has some, are from `low` to below `high`."""
    if array.size <= FEW:
        held: list[int] = array.ravel().tolist()
        return low <= min(held) and max(held) < high
    if low == 0 and array.dtype.kind == "i" and array.dtype.isnative:  # a negative one is a huge one without its sign
        return int(array.view(f"u{array.itemsize}").max()) < high
    return low <= int(array.min()) and int(array.max()) < high  # one of 2^63 is none of C


def is_frozen(array: Array) -> bool:
    """Return whether nothing writes an array: it is read-only, and so is whatever it is a view of."""
    if array.flags.writeable:
        return False
    base = array.base
    if base is None or isinstance(base, np.ndarray):
        return base is None or is_frozen(base)
    try:
        return memoryview(base).readonly
    except TypeError:
        return False
