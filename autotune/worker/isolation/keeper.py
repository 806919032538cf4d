r"""Keeper: a fork server that has all modules loaded, forks isolated processes, and kills what they leave behind.

    tuner --control--> keeper --fork--> process     a process starts in some 20 ms, since nothing is imported again
      \____________ channel ____________/

The keeper runs no candidate. As a child subreaper it adopts and kills all descendants of candidates, whatever session
they are in. It ends when the tuner does, and isolated processes end with it.
"""

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from subprocess import Popen, TimeoutExpired

import psutil

from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.host.readable import Readable, readable
from autotune.worker.isolation.channel import Channel
from autotune.worker.isolation.process import ProcessSettings, serve
from autotune.worker.isolation.sandbox import available_mechanisms

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
CLOSE_SECONDS = 10.0
PROCESSOR_TIME = 2  # CPUCLOCK_SCHED: clock type in the low bits of a process's clock id
START, END = "start", "end"
NOTHING = Readable()


@dataclass(frozen=True)
class IsolatedProcess:
    """Handle of an isolated process in the tuner.

    Attributes:
        channel: Channel that calls are sent to, and that progress reports and answers are received from.
        gone: Descriptor of the process (pidfd), readable when the process ends.
        pid: Process identifier.
    """

    channel: Channel
    gone: int
    pid: int

    def busy_seconds(self) -> float:
        """Return the process's CPU time in seconds, by the kernel's clock; infinity if the process is gone."""
        try:
            return time.clock_gettime(~self.pid << 3 | PROCESSOR_TIME)
        except OSError:
            return inf

    def close(self) -> None:
        """Close the descriptors."""
        self.channel.close()
        os.close(self.gone)


class Keeper:
    """Client of a keeper process: starts and ends isolated processes, one at a time."""

    def __init__(self, settings: ProcessSettings, preload: Sequence[str]) -> None:
        """Start the keeper.

        Args:
            settings: Environment of every process: folder, limits, cores, sandbox.
            preload: Modules that the keeper imports before it forks.
        """
        self._control, keeper_end = Pipe()
        with keeper_end:
            self._process = start_keeping(keeper_end.fileno(), preload)
        self._control.send((settings, tuple(preload)))

    def start(self, allowed: Readable = NOTHING) -> IsolatedProcess:
        """Fork an isolated process.

        Args:
            allowed: Files and folders that it may read besides its own code.

        Raises:
            EOFError: The keeper is gone.
        """
        tuner_end, process_end = Channel.pair()
        try:
            self._control.send((START, allowed))
            send_handle(self._control, process_end.fileno(), self._process.pid)
        finally:
            process_end.close()
        pid: int = self._control.recv()
        return IsolatedProcess(tuner_end, os.pidfd_open(pid), pid)

    def end(self) -> int:
        """Kill the process and its descendants; return its exit code, the negated signal number if one killed it.

        Raises:
            EOFError: The keeper is gone.
        """
        self._control.send((END, NOTHING))
        code: int = self._control.recv()
        return code

    def close(self) -> None:
        """End the process and the keeper."""
        self._control.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def detach(self) -> None:
        """Close the control pipe in a fork: the keeper belongs to the parent and ends with it."""
        self._control.close()
        self._process.returncode = 0  # not a child of this process: `Popen` must not wait for it


def start_keeping(handle: int, preload: Sequence[str]) -> "Popen[bytes]":
    """Start a keeper process, a new Python interpreter: its memory layout differs from that of the one before.

    Args:
        handle: Descriptor of the control pipe.
        preload: Modules that it will be asked to load.
    """
    # Not a `multiprocessing` process, which would import the caller's main script again.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import keep; keep({handle})"
    # Its own session from the start, so that Ctrl-C reaches only the tuner.
    return Popen([sys.executable, "-c", code], pass_fds=[handle], start_new_session=True)


def keep(handle: int) -> None:
    """Serve requests to start and end processes on a descriptor until the tuner is gone. Runs in the keeper."""
    ask_for_tiles()  # before any fork: forks inherit the permission to use AMX
    gc.disable()  # imports create no garbage, but would trigger a hundred collections
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
    control, keeper, child = Connection(handle), os.getpid(), 0
    with suppress(EOFError, ConnectionError):
        settings, preload = control.recv()
        for module in preload:
            import_module(module)
        available_mechanisms()  # loads the libraries of the sandbox
        readable()  # cached for all forks
        gc.freeze()  # else a collection in a fork writes to, and so copies, the pages of all loaded objects
        gc.enable()
        while True:
            request, allowed = control.recv()
            if request == START:
                handle = recv_handle(control)
                child = os.fork()
                if child == 0:
                    control.close()
                    serve(Channel.opened(handle), replace(settings, readable=allowed), keeper)
                os.close(handle)
                control.send(child)
            else:
                code, child = clear(child), 0
                control.send(code)
    clear(child)


def clear(child: int) -> int:
    """Kill a process and its descendants, wait for all of them, and return the process's exit code."""
    code = 0
    if child:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(ChildProcessError):  # until there is no child left
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                kill_strays()
    return code


def kill_strays() -> None:
    """Kill every descendant, including those that left the session of their process."""
    for stray in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            stray.kill()
