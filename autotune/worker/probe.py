"""Probe of the sandbox: what a program tries that means harm, in an isolated process, and what becomes of it."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from autotune.worker.worker import Worker

PTRACE_ATTACH = 16


def write_a_file() -> None:
    """Write a file beside those of the worker."""
    path = Path(f"/tmp/autotune-probe-{os.getpid()}")
    path.write_text("written")
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


ATTEMPTS: dict[str, Callable[[], None]] = {
    "write a file": write_a_file,
    "open a socket": open_a_socket,
    "start a program": start_a_program,
    "fork": fork,
    "signal its parent": signal_the_parent,
    "read its parent's memory": trace_the_parent,
    "debug its parent": attach_to_the_parent,
}


def attempt_all(_: None = None) -> tuple[str, ...]:
    """The attempts of `ATTEMPTS` that succeed in this process; none may where all walls stand."""
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
    found = worker.call(attempt_all, None)
    return found if isinstance(found, tuple) else ("end its process",)
