"""Hardware counters by Linux's perf_event_open (see its manual page), where the machine and its owner allow them."""

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
    """``struct perf_event_attr`` as far as it is needed; the rest is zero."""

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
    """What was counted.

    Attributes:
        events: Number of events per call, by name, of user code alone.
        missing: Reason why events are not there, a sentence; empty where all are.
    """

    events: dict[str, float]
    missing: str = ""


def count_events(run: Callable[[int], None], calls: int) -> Counts:
    """Count hardware events of a program, in a run of its own each: few machines have registers for all at once."""
    found: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name, config in EVENTS.items():
        try:
            with open_counter(config) as descriptor:
                control(descriptor, ENABLE)
                run(calls)
                control(descriptor, DISABLE)
                found[name] = int.from_bytes(os.read(descriptor, 8), "little") / calls
        except OSError as error:
            refused[name] = why(error)
    sentences = [f"{', '.join(n for n in refused if refused[n] == r)}: {r}" for r in dict.fromkeys(refused.values())]
    return Counts(found, "; ".join(sentences))


@contextmanager
def open_counter(config: int) -> Iterator[int]:
    """A descriptor that counts an event of this thread.

    Raises:
        OSError: The machine has no such counter, or it may not be used.
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
    """Switch a counter on or off."""
    ctypes.CDLL(None, use_errno=True).ioctl(descriptor, request, 0)


def why(error: OSError) -> str:
    """Why a counter is refused, and the way out."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "not allowed; lower /proc/sys/kernel/perf_event_paranoid to 2, or allow the container perf_event_open"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return "this machine's (virtual) CPU does not offer it"
    return os.strerror(error.errno or 0).lower()
