"""Arrays of results: a large one lies on memory that an earlier result of the same call gave back when it was dropped.

Fresh memory of the system is zeroed page by page, which takes as long as a program that only writes it.
"""

import ctypes
from math import prod
from typing import Any

import numpy as np

from autotune.core.host.pages import Pages, empty_bytes
from autotune.core.payload import Array

LEAST_BYTES = 1 << 20  # smaller ones come from the heap, which hands out memory again by itself
MOST_FREE = 2  # one is computed while the caller still has the one before


class Results:
    """Makes the arrays of one result; from any number of threads.

    Args:
        shape: Shape of the result.
        dtype: Element type of the result.
        pages: Kind of memory pages that it lies on.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], pages: Pages) -> None:
        self._shape, self._dtype, self._pages = shape, dtype, pages
        self._bytes = prod(shape) * dtype.itemsize
        self._free: list[Array] = []
        self._block = block_type(self._bytes) if self._bytes >= LEAST_BYTES else None

    def empty(self) -> Array:
        """An array of undefined elements that nobody else has; its memory is used again when no view of it is left."""
        if self._block is None:
            return np.empty(self._shape, self._dtype)
        try:
            memory = self._free.pop()
        except IndexError:
            memory = empty_bytes(self._bytes, self._pages)
        block = self._block.from_address(memory.ctypes.data)
        block.memory, block.free = memory, self._free
        return np.frombuffer(block, self._dtype).reshape(self._shape)


def block_type(size: int) -> Any:  # noqa: ANN401 - a class of ctypes, of which type checkers know no size
    """A class of so many bytes somewhere: what all views of an array hold on to, and what knows when none is left."""

    class Block(ctypes.c_char * size):  # type: ignore[misc]
        """Bytes of a result.

        Attributes:
            memory: Array that owns them.
            free: List that takes the memory when nothing refers to the block any more.
        """

        memory: Array
        free: list[Array]

        def __del__(self) -> None:
            if len(self.free) < MOST_FREE:
                self.free.append(self.memory)

    return Block
