"""Sandbox: walls of the kernel around a process that runs a stranger's code.

    Landlock   no file is opened for reading but those of `readable`, none for writing but one of its worker, no
               program is started, no signal leaves the process
    seccomp    no system call but those that computing needs, as `system_calls` lists them

Both are raised by the process itself, once its imports are done, hold for every thread it starts, and never come down.
Before that it gives up what root may do. A call that a wall stops fails with ``EPERM``, ``EACCES`` or ``ENOSYS``, and
the process goes on.

Sources: Landlock, https://docs.kernel.org/userspace-api/landlock.html; capset(2).
"""

import ctypes
import os
from contextlib import suppress
from typing import Literal

from autotune.core.host.readable import SYSTEM, Readable
from autotune.worker.isolation.system_calls import filter_system_calls

Wall = Literal["landlock", "seccomp"]
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
READ_ANYTHING = 1 << 2  # CAP_DAC_READ_SEARCH: root reads what belongs to others, where Landlock lets it


def raise_walls(scratch: str, readable: Readable) -> tuple[Wall, ...]:
    """Raise every wall that this machine has around this process, for good.

    Args:
        scratch: The one file that may be written; it exists.
        readable: What may be read besides the system's; what is not there is left out.

    Returns:
        The walls that stand.
    """
    drop_capabilities()
    return walls_that_stand(raise_landlock(scratch, readable), filter_system_calls())


def raise_walls_around_programs(programs: tuple[str, ...]) -> tuple[Wall, ...]:
    """Raise the walls around a process that is about to become another program, for good.

    No file is opened for writing, and none beside the system's for reading but the programs.

    Args:
        programs: Programs that may be started in the process's place, none beside it, all behind the same walls.

    Returns:
        The walls that stand.
    """
    available_walls()  # which finds their libraries, and writes a file for that
    drop_capabilities()
    stands = raise_landlock(None, Readable(programs))
    return walls_that_stand(stands, filter_system_calls(("execve",)))


def walls_that_stand(landlock: bool, seccomp: bool) -> tuple[Wall, ...]:
    """The walls by name, of which it is told whether they stand."""
    raised: tuple[tuple[Wall, bool], ...] = (("landlock", landlock), ("seccomp", seccomp))
    return tuple(wall for wall, stands in raised if stands)


def available_walls() -> tuple[Wall, ...]:
    """The walls that this machine has: a kernel with Landlock, and libseccomp."""
    found: list[Wall] = []
    with suppress(ImportError, OSError, RuntimeError):
        from py_landlock import Landlock, LandlockError  # noqa: PLC0415 - for Linux alone

        with suppress(LandlockError):
            if Landlock().abi_version:
                found.append("landlock")
    with suppress(ImportError, OSError, RuntimeError):
        import pyseccomp  # noqa: F401, PLC0415 - raises where there is no libseccomp

        found.append("seccomp")
    return tuple(found)


def drop_capabilities() -> None:
    """Give up for good what root may do besides reading: clocks, names, limits and devices of the machine."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 of them
    libc = ctypes.CDLL(None)
    if libc.capget(header, held) == 0:
        kept = held[1] & READ_ANYTHING
        libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept))


def raise_landlock(scratch: str | None, readable: Readable) -> bool:
    """Allow reading some files, writing one, and nothing else; tell whether the kernel does that.

    Args:
        scratch: The file that may be written; `None` for none, but what is readable may be started as a program.
        readable: What may be read.
    """
    try:
        from py_landlock import AccessFs, Landlock, LandlockError  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError):
        return False
    read = AccessFs.READ_FILE if scratch is not None else AccessFs.READ_FILE | AccessFs.EXECUTE
    rules = Landlock(strict=False)

    def allow(path: str, of_file: AccessFs, of_folder: AccessFs) -> None:
        with suppress(OSError, LandlockError):  # what is not there cannot be read
            rules.add_path_rule(path, access=of_folder if os.path.isdir(path) else of_file)

    # The kernel's rule about a folder of /proc holds as long as the folder is in its cache, where this keeps it.
    os.set_inheritable(os.open("/proc/self", os.O_PATH), True)
    for path in (*SYSTEM, "/proc/self", *readable.paths):
        allow(path, read, read | AccessFs.READ_DIR)
    for path in readable.listed:
        allow(path, AccessFs(0), AccessFs.READ_DIR)
    if scratch is not None:
        allow(scratch, AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.TRUNCATE, AccessFs(0))
    try:
        rules.apply()
    except (LandlockError, OSError):
        return False
    return True
