"""Hardware performance counters by Linux's perf_event_open (see its manual page), if they exist and are permitted."""

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
HARDWARE = 0  # PERF_TYPE_HARDWARE
EVENTS = {"cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "branch-misses": 5}
ENABLE, DISABLE = 0x2400, 0x2401  # PERF_EVENT_IOC_*
EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
DISABLED = 1
SIZE = 112  # PERF_ATTR_SIZE_VER5


class Attributes(ctypes.Structure):
    """Prefix of ``struct perf_event_attr``; the remaining fields are zero."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 10),
    )


@dataclass(frozen=True)
class Counts:
    """Counted hardware events.

    Attributes:
        events: Number of events per call in user code, by name.
        missing: Sentence on why some events are missing; empty if all were counted.
    """

    events: dict[str, float]
    missing: str = ""


def count_events(run: Callable[[int], None], calls: int) -> Counts:
    """Count the hardware events of a program, one run per event: few machines have registers for all at once."""
    events: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name, config in EVENTS.items():
        try:
            with open_counter(config) as descriptor:
                control(descriptor, ENABLE)
                run(calls)
                control(descriptor, DISABLE)
                events[name] = int.from_bytes(os.read(descriptor, 8), "little") / calls
        except OSError as error:
            refused[name] = why(error)
    sentences = [f"{', '.join(n for n in refused if refused[n] == r)}: {r}" for r in dict.fromkeys(refused.values())]
    return Counts(events, "; ".join(sentences))


@contextmanager
def open_counter(config: int) -> Iterator[int]:
    """Open a file descriptor that counts an event of this thread.

    Raises:
        OSError: The machine has no such counter, or access is denied.
    """
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "no such system call here")
    attributes = Attributes(type=HARDWARE, size=SIZE, config=config, flags=DISABLED | EXCLUDE_KERNEL_AND_HYPERVISOR)
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(number, ctypes.byref(attributes), 0, -1, -1, 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        yield descriptor


def control(descriptor: int, request: int) -> None:
    """Enable or disable a counter."""
    ctypes.CDLL(None, use_errno=True).ioctl(descriptor, request, 0)


def why(error: OSError) -> str:
    """Return why a counter is not available, and how to enable it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "not allowed; lower /proc/sys/kernel/perf_event_paranoid to 2, or allow the container perf_event_open"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return "this machine's (virtual) CPU does not offer it"
    return os.strerror(error.errno or 0).lower()
