"""Workers: every candidate compiles and runs in a process of its own kind, which may crash, hang or eat memory.

The process persists from job to job; when one ends it, the job gets an outcome and the next job a new process.
"""

import ctypes
import os
import resource
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psutil
from pebble import ProcessExpired, ProcessPool

from autotune.ir.evaluate import Evaluation, Job, evaluate, roofs
from autotune.ir.module import first_lines
from autotune.ir.roofs import Roofs
from autotune.machine import Machine

A = TypeVar("A")
T = TypeVar("T")
MEMORY_SHARE = 0.75  # of the machine's memory, for one worker
OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate memory", "unable to allocate")
POLL_SECONDS = 0.5
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Worker:
    """One isolated process; use as a context manager.

    Args:
        seconds: How long a job may take before it is stopped.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self._log = Path(tempfile.mkstemp(prefix="autotune-worker-")[1])
        self._pid = Path(tempfile.mkstemp(prefix="autotune-worker-")[1])
        self._pool = self._start_pool()

    def _start_pool(self) -> ProcessPool:
        limit = int(psutil.virtual_memory().total * MEMORY_SHARE)
        return ProcessPool(
            max_workers=1,
            initializer=start,
            initargs=(str(self._log), str(self._pid), limit),
            context=get_context("spawn"),
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        self._pool.stop()
        self._pool.join()
        self._log.unlink(missing_ok=True)
        self._pid.unlink(missing_ok=True)

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time a job's candidates; one `Evaluation` each, whatever happens.

        When the process dies over a job of several candidates, all of them get that outcome.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        found = self.call(evaluate, job, seconds)
        return [found] * len(job.candidates) if isinstance(found, Evaluation) else found

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Run a function of a module in the process; where the process fails over it, an `Evaluation` that says how.

        Args:
            function: What to run.
            argument: What to give it.
            seconds: How long it may take; by default what a job may.

        Raises:
            AutotuneError: The function raised it.
        """
        try:
            return self._run(function, argument, seconds=seconds or self.seconds)
        except FutureTimeout:
            return Evaluation("timed-out", diagnostic=f"took longer than {seconds or self.seconds:g} s")
        except ProcessExpired as error:
            return self._post_mortem(error)
        except MemoryError:
            return Evaluation("out-of-memory", diagnostic="the worker's memory limit was reached")

    def roofs(self, machine: Machine) -> Roofs:
        """Measure the machine's roofs."""
        return self._run(roofs, machine, seconds=self.seconds)

    def _run(self, function: Callable[..., T], argument: object, seconds: float) -> T:
        """Run a function in the process; pebble watches the time and crashes, but not an exit with code 0."""
        self._log.write_bytes(b"")
        if self._is_gone():  # over an earlier job; its successor will write its own number
            self._pid.write_text("")
        future = self._pool.schedule(function, args=[argument], timeout=seconds)
        while True:
            gone = self._is_gone()
            try:
                result: T = future.result(timeout=POLL_SECONDS)
                return result
            except FutureTimeout:
                if future.done():
                    raise
            if gone:
                self._pool.stop()
                self._pool.join()
                self._pool = self._start_pool()
                raise ProcessExpired("the process ended", code=0)

    def _is_gone(self) -> bool:
        """Tell whether the process that last started is no more."""
        pid = self._pid.read_text()
        return bool(pid) and not psutil.pid_exists(int(pid))

    def _post_mortem(self, error: ProcessExpired) -> Evaluation:
        said = self._log.read_text(errors="replace")
        if any(sign in said.lower() for sign in OUT_OF_MEMORY):
            return Evaluation("out-of-memory", diagnostic=first_lines(said))
        code = int(getattr(error, "exitcode", 0) or 0)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Evaluation("crashed", diagnostic=first_lines(f"{how}\n{said}"))


def start(log: str, pid: str, memory_limit: int) -> None:
    """Set up a new worker: limits, no core dumps, output to the log, Ctrl-C left to the parent, one fixed core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    Path(pid).write_text(str(os.getpid()))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
