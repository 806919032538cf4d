"""Room for scipy: its OpenBLAS waits for ever for memory that it does not get, so that is asked for beforehand."""

from functools import cache
from mmap import mmap

SCIPY_BYTES = 400 << 20  # of address space that scipy.stats and its OpenBLAS take, with some to spare


@cache
def check_room() -> None:
    """Raise unless scipy can be loaded; called before a part of it is used.

    Raises:
        MemoryError: The limit of this process is too near.
    """
    try:
        mmap(-1, SCIPY_BYTES).close()
    except OSError as error:
        raise MemoryError from error
