"""Memory pages of large arrays: huge pages of 2 MiB, where the kernel provides them and the run allows them.

`AUTOTUNE_PAGES=small` in the environment selects small pages for a whole run.
"""

import mmap
import os
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from autotune.core.errors import MachineError
from autotune.core.payload import DTYPES, Argument, Array

Pages = Literal["huge", "small"]
HUGE_BYTES = 2 << 20
ALIGNMENT = 64
VARIABLE = "AUTOTUNE_PAGES"
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def pages_of_run(enabled: Path = ENABLED) -> Pages:
    """Return the kind of pages for large arrays of this run.

    Raises:
        MachineError: The environment variable is neither ``huge`` nor ``small``.
    """
    wanted = os.environ.get(VARIABLE, "huge")
    if wanted not in ("huge", "small"):
        raise MachineError(f"{VARIABLE} must be huge or small, got {wanted!r}; unset it")
    return "huge" if wanted == "huge" and gives_huge_pages(enabled) else "small"


def gives_huge_pages(enabled: Path = ENABLED) -> bool:
    """Return whether the kernel provides transparent huge pages on request."""
    try:
        return "[never]" not in enabled.read_text(encoding="utf-8")
    except OSError:
        return False


def empty_bytes(count: int, pages: Pages) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Allocate at least `count` uninitialised bytes, aligned to a huge page from the size of one on.

    Raises:
        MemoryError: There is not enough memory.
    """
    if count < HUGE_BYTES:
        return np.empty(count, np.uint8)
    try:
        memory = mmap.mmap(-1, count + HUGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        left = psutil.virtual_memory().available / 2**30
        raise MemoryError(
            f"an array must fit what is left of memory, {left:.1f} GiB, it takes {count / 2**30:.6g}; compute a part"
        ) from error
    with suppress(OSError):  # kernels without huge pages do not support the advice
        memory.madvise(mmap.MADV_HUGEPAGE if pages == "huge" else mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    return whole[-whole.ctypes.data % HUGE_BYTES :]


def aligned_empty(argument: Argument, pages: Pages) -> Array:
    """Return an uninitialised array for an argument; see `aligned_array`."""
    return aligned_array(argument.shape, DTYPES[argument.dtype], pages)


def aligned_array(shape: tuple[int, ...], dtype: "np.dtype[Any]", pages: Pages) -> Array:
    """Return an uninitialised array aligned to a cache line, so that times do not depend on the allocator.

    The array and all views of it share one base, the array that owns the memory.
    """
    size = prod(shape) * dtype.itemsize
    buffer = empty_bytes(size + ALIGNMENT, pages)
    offset = -buffer.ctypes.data % ALIGNMENT
    return buffer[offset : offset + size].view(dtype).reshape(shape)
