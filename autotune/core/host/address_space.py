"""Whether this process may take the address space that the native libraries need."""

import resource

from autotune.core.errors import MachineError

LEAST = 768 << 20
"""Bytes that the native libraries and a small program take on two cores, with a tenth to spare. With less, a library
may end the process by a signal before anybody can say why; how much less differs between machines."""


def check_address_space() -> None:
    """Refuse a limit of address space that the program itself does not fit in.

    Raises:
        MachineError: The soft limit (`ulimit -v`) is below `LEAST`.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST:
        raise MachineError(
            f"the address space of this process must be at least {LEAST / 2**30:.2f} GiB, its limit is "
            f"{limit / 2**30:.2f} GiB; raise ulimit -v"
        )
