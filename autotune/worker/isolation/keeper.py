r"""The keeper: a process that has everything loaded, forks isolated processes, and clears away what they leave.

    tuner --control--> keeper --fork--> process     a process starts in some 20 ms, since nothing is imported again
      \____________ channel ____________/

The keeper runs no candidate. It adopts what candidates start, whatever session they flee to, and kills it; it ends when
the tuner does, and processes end with it.
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
from autotune.worker.isolation.process import Surroundings, serve
from autotune.worker.isolation.sandbox import available_walls

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
CLOSE_SECONDS = 10.0
PROCESSOR_TIME = 2  # CPUCLOCK_SCHED: of a process's clock, its kind
START, END = "start", "end"
NOTHING = Readable()


@dataclass(frozen=True)
class IsolatedProcess:
    """An isolated process, as the tuner sees it.

    Attributes:
        channel: Calls go in, moments and answers come out.
        gone: A descriptor that becomes readable when the process ends.
        pid: Number of the process.
    """

    channel: Channel
    gone: int
    pid: int

    def busy_seconds(self) -> float:
        """Processor time that it has used, by the kernel's clock of a process; infinite if the process is gone."""
        try:
            return time.clock_gettime(~self.pid << 3 | PROCESSOR_TIME)
        except OSError:
            return inf

    def close(self) -> None:
        """Give the descriptors back."""
        self.channel.close()
        os.close(self.gone)


class Keeper:
    """Starts and ends isolated processes, one at a time."""

    def __init__(self, around: Surroundings, preload: Sequence[str]) -> None:
        """Start the keeper.

        Args:
            around: What every process finds.
            preload: Modules that every process finds loaded.
        """
        self._control, theirs = Pipe()
        with theirs:
            self._process = start_keeping(theirs.fileno(), preload)
        self._control.send((around, tuple(preload)))

    def start(self, allowed: Readable = NOTHING) -> IsolatedProcess:
        """Fork an isolated process.

        Args:
            allowed: What it may read besides its own code.

        Raises:
            EOFError: The keeper is gone.
        """
        mine, theirs = Channel.pair()
        try:
            self._control.send((START, allowed))
            send_handle(self._control, theirs.fileno(), self._process.pid)
        finally:
            theirs.close()
        pid: int = self._control.recv()
        return IsolatedProcess(mine, os.pidfd_open(pid), pid)

    def end(self) -> int:
        """Kill the process and all it started; its exit code, the negative signal if one killed it before.

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

    def let_go(self) -> None:
        """Leave the keeper to the process that we are a fork of: it ends with that one, not with us."""
        self._control.close()
        self._process.returncode = 0  # it is no child of ours, so that nobody need wait for it


def start_keeping(handle: int, preload: Sequence[str]) -> "Popen[bytes]":
    """Start a process that keeps, a new Python: its memory lies elsewhere than that of the one before.

    Args:
        handle: Descriptor of its requests.
        preload: Modules that it will be asked to load.
    """
    # No process of `multiprocessing`: that would run the caller's script once more, to have its functions.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import keep; keep({handle})"
    # In a session of its own from its first moment: Ctrl-C is for the tuner.
    return Popen([sys.executable, "-c", code], pass_fds=[handle], start_new_session=True)


def keep(handle: int) -> None:
    """Start and end processes as requested over a descriptor, until the tuner is gone."""
    ask_for_tiles()  # first of all: what is granted here all its forks have
    gc.disable()  # what is imported is no garbage, and would be searched for it a hundred times
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
    control, me, child = Connection(handle), os.getpid(), 0
    with suppress(EOFError, ConnectionError):
        around, preload = control.recv()
        for module in preload:
            import_module(module)
        available_walls()  # loads what raises them
        readable()  # kept for all processes
        gc.freeze()  # else each fork's search for garbage writes to, and so copies, the memory of all that is loaded
        gc.enable()
        while True:
            wish, allowed = control.recv()
            if wish == START:
                handle = recv_handle(control)
                child = os.fork()
                if child == 0:
                    control.close()
                    serve(Channel.opened(handle), replace(around, readable=allowed), me)
                os.close(handle)
                control.send(child)
            else:
                code, child = clear(child), 0
                control.send(code)
    clear(child)


def clear(child: int) -> int:
    """Kill a process and whatever it started, and wait for all of it; the process's exit code."""
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
    """Kill every descendant, also those that left the session of their process."""
    for stray in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            stray.kill()
