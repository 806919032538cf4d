"""Arrays as compiled code reads them: what one must be, where its elements lie, which whole numbers it may hold."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.payload import DTYPES, Argument, Array

# NumPy's ABI: the address of the elements is the first field behind the head of the object, as `PyArray_DATA` reads it.
HEAD = object.__basicsize__
POINTER_AT = ctypes.c_void_p.from_address
PLAIN = 0x1 | 0x100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
CHOOSE = "choose another"
FEW = 16  # elements that Python compares sooner than NumPy

_probe = np.zeros(1)
if POINTER_AT(id(_probe) + HEAD).value != _probe.ctypes.data:
    raise ImportError("arrays must lie as NumPy's ABI says, here they do not; use CPython and a release of NumPy")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What an array must be that is given as an argument.

    Attributes:
        argument: Argument of the payload.
        dtype: Element type that compiled code reads.
        bounds: Least whole number it may hold, and the one above the largest; `None` where any will do.
        way_out: What a user does whose numbers are out of bounds, the end of a sentence.
    """

    argument: Argument
    dtype: np.dtype[Any]
    bounds: tuple[int, int] | None
    way_out: str = CHOOSE

    @classmethod
    def of(cls, argument: Argument, way_out: str | None = CHOOSE) -> "Accepted":
        """What an argument takes; whole numbers have no bounds but their type's where there is no way out of them."""
        dtype = DTYPES[argument.dtype]
        if dtype.kind != "i" or way_out is None:
            return cls(argument, dtype, None)
        low, high, held = int(argument.low), int(argument.high), np.iinfo(dtype)
        return cls(argument, dtype, None if low <= held.min and high > held.max else (low, high), way_out)

    def convert(self, value: object) -> Array:
        """A value as an array that compiled code can read: itself where it lies so, else a copy.

        Raises:
            PayloadError: The value is of another shape or kind, or out of range.
        """
        if isinstance(value, np.ma.MaskedArray):
            raise PayloadError(f"{self.argument.name} must be an array without a mask, it has one; use .filled(..)")
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise PayloadError(f"{self.argument.name} must be an array, {error}") from error
        if array.shape != self.argument.shape:
            raise PayloadError(
                f"{self.argument.name} must have shape {self.argument.shape}, got {array.shape}; reshape it"
            )
        whole = self.dtype.kind == "i"
        if array.dtype.kind not in ("iub" if whole else "fiub") and array.dtype != self.dtype:
            kind = "whole" if whole else "real"
            raise PayloadError(f"{self.argument.name} must hold {kind} numbers, got {array.dtype}; convert it")
        if array.dtype == bool and self.dtype.itemsize == 1 and array.flags.c_contiguous:
            return array.view(self.dtype)
        if whole:
            self.check(array)  # before it is narrowed
        return np.require(array, self.dtype, ("C", "A"))

    def check(self, array: Array) -> None:
        """Refuse whole numbers that are out of range: a compiled function would read memory that is not its own.

        Raises:
            PayloadError: A number is.
        """
        held = np.iinfo(self.dtype)
        low, high = self.bounds or (int(held.min), int(held.max) + 1)
        if not lie_within(array, low, high):
            wrong = array[(array < low) | (array >= high)].flat[0]
            raise PayloadError(f"{self.argument.name} must be from {low} to {high - 1}, got {wrong}; {self.way_out}")


def lie_within(array: Array, low: int, high: int) -> bool:
    """Tell whether all whole numbers of an array, which has some, are from `low` to below `high`."""
    if array.size <= FEW:
        held: list[int] = array.ravel().tolist()
        return low <= min(held) and max(held) < high
    if low == 0 and array.dtype.kind == "i" and array.dtype.isnative:  # a negative one is a huge one without its sign
        return int(array.view(f"u{array.itemsize}").max()) < high
    return bool(low <= array.min() and array.max() < high)


def point(arrays: Sequence[object], accepted: Sequence[Accepted], slots: Sequence[ctypes.c_void_p]) -> list[Array]:
    """Write the address of each array's elements into its slot; an array that cannot be read as it lies is copied.

    Args:
        arrays: Arrays that are given.
        accepted: What each must be.
        slots: Addresses that compiled code reads.

    Returns:
        The copies, which must live as long as their addresses are used.

    Raises:
        PayloadError: An array is of another shape or kind, or out of range.
    """
    copies = []
    for array, wanted, slot in zip(arrays, accepted, slots, strict=True):
        if (
            type(array) is not np.ndarray
            or array.dtype is not wanted.dtype
            or array.shape != wanted.argument.shape
            or array.flags.num & PLAIN != PLAIN
        ):
            array = wanted.convert(array)  # noqa: PLW2901 - from here on it is the copy
            copies.append(array)
        elif wanted.bounds is not None:
            wanted.check(array)
        slot.value = POINTER_AT(id(array) + HEAD).value
    return copies


def is_frozen(array: Array) -> bool:
    """Tell whether nothing writes an array: it is read-only, and so is whatever it is a view of."""
    if array.flags.writeable:
        return False
    base = array.base
    if base is None or isinstance(base, np.ndarray):
        return base is None or is_frozen(base)
    try:
        return memoryview(base).readonly
    except TypeError:
        return False
