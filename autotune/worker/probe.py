"""Probe of the sandbox: attempts by an isolated process to affect its surroundings, and which of them succeed."""

import ctypes
import errno
import fcntl
import os
import platform
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from autotune.worker.worker import Worker

PTRACE_ATTACH = 16
HIGH = 1 << 32  # a bit beyond an int argument, which the kernel truncates
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)
INVALID = (1 << 64) - 1
NUMBERS = {  # system call numbers: x86_64, and the generic table of later architectures
    "ioctl": (16, 29),
    "sendto": (44, 206),
    "semctl": (66, 191),
    "msgctl": (71, 187),
    "shmctl": (31, 195),
    "fcntl": (72, 25),
    "prctl": (157, 167),
    "sethostname": (170, 161),
    "clock_settime": (227, 112),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "setxattrat": (463, 463),
    "file_setattr": (469, 469),
}
TIOCSTI, FS_IOC_SETFLAGS, PR_SET_PDEATHSIG, IPC_RMID = 0x5412, 0x40086602, 1, 0
VICTIM = "AUTOTUNE_VICTIM"  # environment variable of the probed process: path of a file of the user


def write_a_file() -> None:
    """Write a file outside the worker's folder."""
    path = Path(f"/tmp/autotune-probe-{os.getpid()}")
    path.write_text("written", encoding="utf-8")
    path.unlink()


def open_a_socket() -> None:
    """Open a network socket."""
    socket.socket().close()


def start_a_program() -> None:
    """Start another program."""
    subprocess.run(["true"], check=False)


def signal_the_parent() -> None:
    """Check whether a signal could be sent to the parent."""
    os.kill(os.getppid(), 0)


def trace_the_parent() -> None:
    """Open the parent's memory for reading."""
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        pass


def attach_to_the_parent() -> None:
    """Attach to the parent with ptrace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, os.getppid(), None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(os.getppid(), 0)


def fork() -> None:
    """Start a child process, which could outlive this one."""
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def knock(name: str, *arguments: int) -> None:
    """Make a system call with invalid arguments, which has no effect but shows whether the filter lets it through.

    Args:
        name: Name of the call, a key of `NUMBERS`.
        *arguments: Leading arguments of the call; the rest are 0.

    Raises:
        PermissionError: The call is refused.
    """
    number = NUMBERS[name][platform.machine() != "x86_64"]
    words = [ctypes.c_uint64(word) for word in (number, *arguments, *[0] * (6 - len(arguments)))]
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    if libc.syscall(*words) == -1 and ctypes.get_errno() in REFUSALS:
        raise PermissionError(ctypes.get_errno(), name)


def knock_at_any(*calls: tuple[str, *tuple[int, ...]]) -> None:
    """Make system calls as `knock` does, until one is let through.

    Raises:
        PermissionError: All of the calls are refused.
    """
    for name, *arguments in calls:
        with suppress(PermissionError):
            return knock(name, *arguments)
    raise PermissionError(errno.EPERM, calls[-1][0])


def send_by_path() -> None:
    """Open a datagram socket pair, as needed to send to a service that listens at a path, such as the system log."""
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        end.close()


def send_to_an_address() -> None:
    """Call `sendto` with a destination address on an existing descriptor."""
    knock("sendto", INVALID, 0, 0, 0, 1, 2)


def own_a_descriptor() -> None:
    """Set the process that a descriptor signals (``F_SETOWN``), with a high bit set in the command."""
    knock("fcntl", 0, HIGH | fcntl.F_SETOWN, os.getpid())


def type_into_a_terminal() -> None:
    """Push input into a terminal (``TIOCSTI``), with a high bit set in the request."""
    knock("ioctl", 0, HIGH | TIOCSTI)


def outlive_the_keeper() -> None:
    """Set the parent-death signal, with a high bit set in the option; the signal itself is left unchanged."""
    knock("prctl", HIGH | PR_SET_PDEATHSIG, int(signal.SIGKILL))


def remove_shared_memory() -> None:
    """Remove a shared-memory segment, message queue or semaphore of another process by its identifier."""
    knock_at_any(("shmctl", INVALID, IPC_RMID), ("msgctl", INVALID, IPC_RMID), ("semctl", INVALID, 0, IPC_RMID))


def mark_a_file() -> None:
    """Set an attribute or a flag of a file that is open for reading."""
    knock_at_any(("setxattrat", INVALID), ("file_setattr", INVALID), ("ioctl", 0, FS_IOC_SETFLAGS))


def set_the_clock() -> None:
    """Set the machine's clock."""
    knock("clock_settime")


def rename_the_machine() -> None:
    """Set the machine's host name."""
    knock("sethostname", 0, 1)


def watch_the_processor() -> None:
    """Open a performance counter, which can observe other processes."""
    knock("perf_event_open", 0, 0, INVALID, INVALID)


def queue_calls() -> None:
    """Set up an io_uring, whose operations bypass the system call filter."""
    knock("io_uring_setup")


def read_a_file_of_the_user() -> None:
    """Read a file of the user that the tuner has not opened."""
    Path(os.environ[VICTIM]).read_bytes()


ATTEMPTS: dict[str, Callable[[], None]] = {
    "write a file": write_a_file,
    "open a socket": open_a_socket,
    "start a program": start_a_program,
    "fork": fork,
    "signal its parent": signal_the_parent,
    "read its parent's memory": trace_the_parent,
    "debug its parent": attach_to_the_parent,
    "read a user's file": read_a_file_of_the_user,
    "send to a service": send_by_path,
    "send to an address": send_to_an_address,
    "signal by a descriptor": own_a_descriptor,
    "type into a terminal": type_into_a_terminal,
    "outlive its keeper": outlive_the_keeper,
    "remove others' shared memory": remove_shared_memory,
    "mark a file": mark_a_file,
    "set the clock": set_the_clock,
    "rename the machine": rename_the_machine,
    "watch the processor": watch_the_processor,
    "queue calls": queue_calls,
}


def attempt_all(victim: str) -> tuple[str, ...]:
    """Return the names of the `ATTEMPTS` that succeed in this process; a tight sandbox allows none.

    Args:
        victim: Path of a file of the user.
    """
    os.environ[VICTIM] = victim
    return tuple(name for name, attempt in ATTEMPTS.items() if succeeds(attempt))


def succeeds(attempt: Callable[[], None]) -> bool:
    """Return whether an attempt raises no `OSError`."""
    try:
        attempt()
    except OSError:
        return False
    return True


def find_holes(worker: Worker) -> tuple[str, ...]:
    """Return the attempts that succeed in a worker's process; empty if the sandbox is tight."""
    with tempfile.NamedTemporaryFile(prefix="autotune-probe-") as victim:
        attempts = worker.call(attempt_all, victim.name)
    return attempts if isinstance(attempts, tuple) else ("end its process",)
