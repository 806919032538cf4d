"""Check of the address space limit of this process against the needs of the native libraries."""

import resource

from autotune.core.errors import MachineError

LEAST = 768 << 20
"""Bytes that the native libraries and a small program take on two cores, with a tenth to spare. With less, a library
may end the process by a signal before anybody can say why; how much less differs between machines."""


def check_address_space() -> None:
    """Raise unless the limit of address space is large enough for the native libraries.

    Raises:
        MachineError: The soft limit (`ulimit -v`) is below `LEAST`.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST:
        raise MachineError(
            f"the address space of this process must be at least {LEAST / 2**30:.2f} GiB, its limit is "
            f"{limit / 2**30:.2f} GiB; raise ulimit -v"
        )
