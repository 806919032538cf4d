"""Probe of the sandbox: what a program tries that means harm, in an isolated process, and its outcome."""

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
HIGH = 1 << 32  # a bit that the kernel cuts off where it wants an int
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)
INVALID = (1 << 64) - 1
NUMBERS = {  # of system calls: on x86_64, and on all later processors
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
VICTIM = "AUTOTUNE_VICTIM"  # environment variable of the probed process: a file of the user's


def write_a_file() -> None:
    """Write a file beside those of the worker."""
    path = Path(f"/tmp/autotune-probe-{os.getpid()}")
    path.write_text("written", encoding="utf-8")
    path.unlink()


def open_a_socket() -> None:
    """Open a socket, as anything that talks to a network does."""
    socket.socket().close()


def start_a_program() -> None:
    """Start a program beside this one."""
    subprocess.run(["true"], check=False)


def signal_the_parent() -> None:
    """Ask whether the parent could be killed."""
    os.kill(os.getppid(), 0)


def trace_the_parent() -> None:
    """Look into the memory of the parent."""
    with open(f"/proc/{os.getppid()}/mem", "rb"):
        pass


def attach_to_the_parent() -> None:
    """Become the debugger of the parent."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, os.getppid(), None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(os.getppid(), 0)


def fork() -> None:
    """Start a process that runs on when this one is ended."""
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def knock(name: str, *arguments: int) -> None:
    """Make a system call that can do nothing, as its arguments are wrong; whether it is let through shows.

    Args:
        name: Name of the call, one of `NUMBERS`.
        *arguments: Arguments of the call; 0 for the rest.

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
    """Make several calls, as `knock` does.

    Raises:
        PermissionError: All are refused.
    """
    for name, *arguments in calls:
        with suppress(PermissionError):
            return knock(name, *arguments)
    raise PermissionError(errno.EPERM, calls[-1][0])


def send_by_path() -> None:
    """Send a datagram to a service that listens at a path, as the system's log does."""
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        end.close()


def send_to_an_address() -> None:
    """Send with an address over a descriptor that is there."""
    knock("sendto", INVALID, 0, 0, 0, 1, 2)


def own_a_descriptor() -> None:
    """Have a signal sent by a descriptor's owner, with a high bit set."""
    knock("fcntl", 0, HIGH | fcntl.F_SETOWN, os.getpid())


def type_into_a_terminal() -> None:
    """Type into a terminal, with a high bit set."""
    knock("ioctl", 0, HIGH | TIOCSTI)


def outlive_the_keeper() -> None:
    """Ask not to die with the keeper, with a high bit set; the signal stays what it is."""
    knock("prctl", HIGH | PR_SET_PDEATHSIG, int(signal.SIGKILL))


def remove_shared_memory() -> None:
    """Remove a segment, a queue or a semaphore of another process, by its number alone."""
    knock_at_any(("shmctl", INVALID, IPC_RMID), ("msgctl", INVALID, IPC_RMID), ("semctl", INVALID, 0, IPC_RMID))


def mark_a_file() -> None:
    """Write an attribute or a flag of a file that is open for reading."""
    knock_at_any(("setxattrat", INVALID), ("file_setattr", INVALID), ("ioctl", 0, FS_IOC_SETFLAGS))


def set_the_clock() -> None:
    """Set the machine's clock."""
    knock("clock_settime")


def rename_the_machine() -> None:
    """Give the machine another name."""
    knock("sethostname", 0, 1)


def watch_the_processor() -> None:
    """Count events of the processor, which tells what others do on it."""
    knock("perf_event_open", 0, 0, INVALID, INVALID)


def queue_calls() -> None:
    """Have the kernel make calls by a queue, which no filter sees."""
    knock("io_uring_setup")


def read_a_file_of_the_user() -> None:
    """Read a file of the user's that was never named."""
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
    """The attempts of `ATTEMPTS` that succeed in this process; none may where all walls stand.

    Args:
        victim: A file of the user's.
    """
    os.environ[VICTIM] = victim
    return tuple(name for name, attempt in ATTEMPTS.items() if succeeds(attempt))


def succeeds(attempt: Callable[[], None]) -> bool:
    """Whether an attempt is not refused."""
    try:
        attempt()
    except OSError:
        return False
    return True


def find_holes(worker: Worker) -> tuple[str, ...]:
    """What a program in a worker's process can do to its surroundings; empty where all walls stand."""
    with tempfile.NamedTemporaryFile(prefix="autotune-probe-") as victim:
        found = worker.call(attempt_all, victim.name)
    return found if isinstance(found, tuple) else ("end its process",)
