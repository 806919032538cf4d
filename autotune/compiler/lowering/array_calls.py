"""Calls of compiled code on arrays of NumPy: compiled code looks at all arrays, points to them, and calls the program.

Python takes half a microsecond for each array to do so, that code (`array_code.py`) some nanoseconds.
"""

import ctypes
from collections.abc import Sequence

import numpy as np

from autotune.compiler.lowering.array_code import entries
from autotune.compiler.lowering.program import BoundProgram
from autotune.core.arrays import Accepted
from autotune.core.payload import Array

FEW = 1024  # whole numbers that this code, which is compiled in a hurry, looks at sooner than NumPy
NEVER = -1  # a rank that no array has: Python looks at each
NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class ArrayCall:
    """Calls of a program on arrays that lie anywhere; one call at a time.

    Args:
        bound: The program; whatever it is not given here it finds in slots that are filled already.
        slots: Addresses of the arrays' elements, as the program reads them.
        wanted: What the array of each slot must be.

    Attributes:
        count: How many arrays a call takes.
        plan: Address of what compiled code knows of it.
        direct: The same as `run` but that it gives the number of the first array that cannot be read as it lies, and
            computes nothing then; `count` where there is none.
    """

    def __init__(self, bound: BoundProgram, slots: Sequence[ctypes.c_void_p], wanted: Sequence[Accepted]) -> None:
        self._bound, self._slots, self._wanted, self.count = bound, slots, wanted, len(wanted)
        self._sizes = [np.array(each.shape, np.int64) for each in wanted]
        rows = [row(*each) for each in zip(slots, wanted, self._sizes, strict=True)]
        numbers = (bound.code, bound.given, self.count, *(number for each in rows for number in each))
        self._numbers = np.array([number % (1 << 64) for number in numbers], np.uint64)
        self.plan = self._numbers.ctypes.data
        self._code = entries()
        self.direct = NEW(ctypes.addressof(self._code.run), self._numbers, None)

    def run(self, *arrays: object) -> None:
        """Compute once, on an array for each slot.

        Raises:
            AutotuneError: An array is of another shape or kind, or out of range; nothing is run.
            NotExactlyError: An array is for another program.
        """
        wrong = self.direct(*arrays)
        if wrong != self.count:
            self.run_from(wrong, arrays)

    def run_from(self, wrong: int, arrays: tuple[object, ...]) -> None:
        """Compute once, where `direct` gave the number of an array that cannot be read as it lies."""
        copies = self._convert(arrays, wrong)
        self._bound.run()
        del copies  # which the program has read by now

    def point(self, arrays: tuple[object, ...]) -> list[Array]:
        """Point to arrays as `run` does, and compute nothing.

        Returns:
            Copies of arrays that cannot be read as they lie; they must live as long as the program may read them.

        Raises:
            AutotuneError: An array is of another shape or kind, or out of range.
            NotExactlyError: An array is for another program.
        """
        return self._convert(arrays, self._code.point(arrays, self.plan, 0))

    def _convert(self, arrays: tuple[object, ...], wrong: int) -> list[Array]:
        """Point to a copy of an array that cannot be read as it lies, and to the arrays behind it."""
        copies: list[Array] = []
        while wrong != self.count:
            copies.append(self._wanted[wrong].convert(arrays[wrong]))
            self._slots[wrong].value = copies[-1].ctypes.data
            wrong = self._code.point(arrays, self.plan, wrong + 1)
        return copies


def row(slot: ctypes.c_void_p, wanted: Accepted, sizes: Array) -> tuple[int, ...]:
    """What compiled code knows of an array; without bounds its numbers have no bits."""
    low, high = wanted.bounds or (0, 0)
    bits = 8 * wanted.dtype.itemsize if wanted.bounds else 0
    elements = int(sizes.prod())
    rank = NEVER if bits and elements > FEW else len(sizes)
    return (ctypes.addressof(slot), id(wanted.dtype), rank, sizes.ctypes.data, bits, elements, low, high - low)
