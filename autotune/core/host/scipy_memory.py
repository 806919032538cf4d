"""Check of the address space for scipy: its OpenBLAS hangs if an allocation fails, so one is tried beforehand."""

from functools import cache
from mmap import mmap

SCIPY_BYTES = 400 << 20  # address space of scipy.stats and its OpenBLAS, with a margin


@cache
def check_room() -> None:
    """Raise unless there is address space to load scipy; called before a submodule of it is used.

    Raises:
        MemoryError: This process is too close to its limit.
    """
    try:
        mmap(-1, SCIPY_BYTES).close()
    except OSError as error:
        raise MemoryError from error
