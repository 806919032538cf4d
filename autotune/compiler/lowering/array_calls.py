"""Fast calls of a program on NumPy arrays: compiled code checks the arrays, passes their addresses, and calls it.

Python would take half a microsecond per array; that code (`array_code.py`) takes some nanoseconds.
"""

import ctypes
from collections.abc import Sequence

import numpy as np

from autotune.compiler.lowering.array_code import entries
from autotune.compiler.lowering.program import BoundProgram
from autotune.core.arrays import Accepted
from autotune.core.payload import Array

FEW = 1024  # integers up to which this code, which is compiled unoptimized, checks bounds faster than NumPy
NEVER = -1  # a rank that no array has, so that Python checks the array
NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class ArrayCall:
    """Calls of a program on arrays at any address; not reentrant.

    Args:
        bound: Bound program; slots of other arguments must be filled already.
        slots: Slots of the data pointers that the program reads, one for each array of a call.
        wanted: Shape, dtype and bounds required of the array of each slot.

    Attributes:
        count: Number of arrays that a call takes.
        plan: Address of the table that compiled code reads, see `array_code`.
        direct: Function like `run` that returns the position of the first array that cannot be used without a copy,
            and then computes nothing; it returns `count` if there is none.
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
        """Run the program once, on one array for each slot.

        Raises:
            AutotuneError: An array has another shape or dtype, or is out of range; nothing is run.
            NotExactlyError: An array is for another program.
        """
        wrong = self.direct(*arrays)
        if wrong != self.count:
            self.run_from(wrong, arrays)

    def run_from(self, wrong: int, arrays: tuple[object, ...]) -> None:
        """Run the program once, after `direct` returned the position of an array that needs a copy."""
        copies = self._convert(arrays, wrong)
        self._bound.run()
        del copies  # alive until here, as the program reads them

    def point(self, arrays: tuple[object, ...]) -> list[Array]:
        """Fill the slots as `run` does, without running the program.

        Returns:
            Copies of arrays that cannot be used directly; they must live as long as the program may read them.

        Raises:
            AutotuneError: An array has another shape or dtype, or is out of range.
            NotExactlyError: An array is for another program.
        """
        return self._convert(arrays, self._code.point(arrays, self.plan, 0))

    def _convert(self, arrays: tuple[object, ...], wrong: int) -> list[Array]:
        """Copy every array, from position `wrong` on, that cannot be used directly, and fill the remaining slots."""
        copies: list[Array] = []
        while wrong != self.count:
            copies.append(self._wanted[wrong].convert(arrays[wrong]))
            self._slots[wrong].value = copies[-1].ctypes.data
            wrong = self._code.point(arrays, self.plan, wrong + 1)
        return copies


def row(slot: ctypes.c_void_p, wanted: Accepted, sizes: Array) -> tuple[int, ...]:
    """Return the table row of an array for compiled code; `BITS` is 0 if its values have no bounds."""
    low, high = wanted.bounds or (0, 0)
    bits = 8 * wanted.dtype.itemsize if wanted.bounds else 0
    elements = int(sizes.prod())
    rank = NEVER if bits and elements > FEW else len(sizes)
    return (ctypes.addressof(slot), id(wanted.dtype), rank, sizes.ctypes.data, bits, elements, low, high - low)
