"""Where CPython and NumPy keep what compiled code reads of a tuple of arrays: bytes from an object's address.

Both ABIs fix these: extensions read them through macros that are compiled into them.
"""

import ctypes

import numpy as np

HEAD = object.__basicsize__  # of every object; its last field is the address of its type
TYPE = HEAD - 8
ITEMS = tuple.__basicsize__  # addresses of a tuple's items
DATA, RANK, SIZES, ELEMENT, FLAGS = (HEAD + offset for offset in (0, 8, 16, 40, 48))  # of an array of NumPy
PLAIN = 0x1 | 0x100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, in the field of flags


def holds(array: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> bool:
    """Tell whether an array with two sizes, plain in memory, and a tuple with it lie as this module has them."""
    held, long, short = (array,), ctypes.c_int64.from_address, ctypes.c_int32.from_address
    where = id(array)
    return (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and long(id(held) + ITEMS).value == where
        and long(where + TYPE).value == id(np.ndarray)
        and long(where + DATA).value == array.ctypes.data
        and short(where + RANK).value == 2
        and [long(long(where + SIZES).value + 8 * axis).value for axis in (0, 1)] == list(array.shape)
        and long(where + ELEMENT).value == id(array.dtype)
        and short(where + FLAGS).value & PLAIN == PLAIN
    )


if not holds(np.zeros((2, 3))):
    raise ImportError("arrays must lie as NumPy's ABI says, here they do not; use CPython and a release of NumPy")
