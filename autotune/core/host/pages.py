"""Pages that large arrays lie on: of 2 MiB where the kernel gives such on request and the run does not want small ones.

A choice of the run, the same for every entry: `AUTOTUNE_PAGES=small` in the environment.
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
    """What large arrays of this run lie on.

    Raises:
        MachineError: The environment asks for something else than ``huge`` or ``small``.
    """
    wanted = os.environ.get(VARIABLE, "huge")
    if wanted not in ("huge", "small"):
        raise MachineError(f"{VARIABLE} must be huge or small, got {wanted!r}; unset it")
    return "huge" if wanted == "huge" and gives_huge_pages(enabled) else "small"


def gives_huge_pages(enabled: Path = ENABLED) -> bool:
    """Return whether the kernel backs memory by huge pages where it is asked to."""
    try:
        return "[never]" not in enabled.read_text(encoding="utf-8")
    except OSError:
        return False


def empty_bytes(count: int, pages: Pages) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """At least `count` bytes; where a huge page fits, on a boundary of one and advised as wanted.

    Raises:
        MemoryError: There is no room for them.
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
    with suppress(OSError):  # a kernel without huge pages knows no such advice
        memory.madvise(mmap.MADV_HUGEPAGE if pages == "huge" else mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    return whole[-whole.ctypes.data % HUGE_BYTES :]


def aligned_empty(argument: Argument, pages: Pages) -> Array:
    """Uninitialised array for an argument; see `aligned_array`."""
    return aligned_array(argument.shape, DTYPES[argument.dtype], pages)


def aligned_array(shape: tuple[int, ...], dtype: "np.dtype[Any]", pages: Pages) -> Array:
    """Uninitialised array on a cache-line boundary, so that times do not depend on the allocator.

    All views of it have the array as their base that owns its memory, and so has it.
    """
    size = prod(shape) * dtype.itemsize
    buffer = empty_bytes(size + ALIGNMENT, pages)
    offset = -buffer.ctypes.data % ALIGNMENT
    return buffer[offset : offset + size].view(dtype).reshape(shape)
