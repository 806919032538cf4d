"""Fault report of a process that crashes in machine code: the faulting address and the mapped memory.

On SIGSEGV or SIGBUS, our handler runs on the faulting thread before the process dies of the same signal. Its report
distinguishes a failed allocation (the address is near zero, and memory is exhausted or the C library's last error is
ENOMEM) from a wild pointer.
"""

import ctypes
import json
import os
import resource
import signal
from dataclasses import dataclass

MARK = "fault: "
ADDRESS_OFFSET = 16  # of si_addr in siginfo_t, on 64-bit Linux
SA_SIGINFO = 4
STUCK_SECONDS = 2  # a handler that finds the heap's lock taken would deadlock: SIGALRM ends it
SIGNALS = (signal.SIGSEGV, signal.SIGBUS)
Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class FaultReport:
    """Fault that a process reported before it died.

    Attributes:
        address: Faulting address.
        mapped_bytes: Mapped address space.
        limit_bytes: Limit of the address space (``RLIMIT_AS``); 0 for no limit.
        error: Value of ``errno`` in the faulting thread, ``ENOMEM`` after a failed allocation.
    """

    address: int
    mapped_bytes: int
    limit_bytes: int
    error: int = 0


class SignalAction(ctypes.Structure):
    """``struct sigaction`` of Linux with glibc, 64 bits."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def tell_fault(number: int, info: int, context: int) -> None:
    """Write the report to stderr, restore the default action and send the same signal again."""
    error = ctypes.c_int.from_address(find_error_number()).value  # before anything else sets it
    signal.alarm(STUCK_SECONDS)
    address = ctypes.c_uint64.from_address(info + ADDRESS_OFFSET).value
    with open("/proc/self/statm", "rb", buffering=0) as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limit = max(0, resource.getrlimit(resource.RLIMIT_AS)[0])
    report = {"address": address, "mapped_bytes": mapped, "limit_bytes": limit, "error": error}
    os.write(2, f"\n{MARK}{json.dumps(report)}\n".encode())
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


find_error_number = ctypes.CDLL(None)["__errno_location"]
find_error_number.restype = ctypes.c_void_p
TELL_FAULT = Handler(tell_fault)  # must outlive the process's use of its address as a signal handler


def report_faults() -> None:
    """Install the signal handler in this process."""
    action = SignalAction(handler=ctypes.cast(TELL_FAULT, ctypes.c_void_p), flags=SA_SIGINFO)
    for number in SIGNALS:
        ctypes.CDLL(None).sigaction(number, ctypes.byref(action), None)


def read_fault_report(output: str) -> FaultReport | None:
    """Return the last fault report in a process's output; `None` if there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            try:
                return FaultReport(**json.loads(line.removeprefix(MARK)))
            except (ValueError, TypeError):
                return None
    return None
