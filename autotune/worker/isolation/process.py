"""Main loop of an isolated process: set limits, answer calls, and report faults in machine code.

The called code is not trusted: it may write anywhere, print, fork, or never return.
"""

import ctypes
import os
import pickle
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from autotune.core.host.cores import physical_cores
from autotune.core.host.files import SCRATCH
from autotune.core.host.readable import Readable, readable
from autotune.core.host.stopwatch import REPORTER, Moment
from autotune.worker.isolation.answers import Raised, Returned, kind_of, plain_error, write_answer, write_moment
from autotune.worker.isolation.channel import Channel
from autotune.worker.isolation.fault import report_faults
from autotune.worker.isolation.sandbox import enter_sandbox

OPENMP = {"OMP_PLACES": "threads", "OMP_PROC_BIND": "close", "KMP_BLOCKTIME": "1"}  # the last in milliseconds
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
STARTED_A_PROCESS = 113  # exit code


@dataclass(frozen=True)
class Limits:
    """Resource limits of one call.

    Attributes:
        memory_bytes: Address space beyond what is mapped when the call begins.
        cpu_seconds: CPU time in seconds.
        file_bytes: Maximum size of any file that it writes, the log included.
    """

    memory_bytes: int
    cpu_seconds: float
    file_bytes: int = 1 << 26


@dataclass(frozen=True)
class Call:
    """Call of a module-level function with one argument.

    Attributes:
        function: Function to call.
        argument: Argument of the call.
        limits: Resource limits; `None` for trusted code, which may also start processes.
    """

    function: Callable[[Any], Any]
    argument: Any
    limits: Limits | None = None


@dataclass(frozen=True)
class ProcessSettings:
    """Environment of every process of a worker.

    Attributes:
        folder: Private folder of the worker.
        memory_bytes: Limit of a process's address space; `None` for no limit.
        sandboxed: Whether the sandbox is entered before any call.
        threads: Number of threads that compute at once, each on its own core.
        cores: CPUs to be pinned to, one per thread; if empty, the highest physical cores.
        readable: Files and folders that a sandboxed process may read, those that the tuner imported and opened.
    """

    folder: str
    memory_bytes: int | None
    sandboxed: bool
    threads: int = 1
    cores: tuple[int, ...] = ()
    readable: Readable = field(default_factory=Readable)

    @property
    def log(self) -> str:
        """Path of the file that stdout and stderr are redirected to."""
        return os.path.join(self.folder, "log")

    @property
    def scratch(self) -> str:
        """Path of the only file that a sandboxed process may write."""
        return os.path.join(self.folder, "scratch")


def serve(channel: Channel, settings: ProcessSettings, keeper: int) -> None:
    """Answer calls until the channel closes, then exit the process; never returns."""
    try:
        set_up(settings.log, settings.memory_bytes)
    except FileNotFoundError:  # the tuner was killed, and another one removed its folder: nobody waits for answers
        os._exit(1)
    pin(settings.threads, settings.cores)
    if os.getppid() != keeper:  # the keeper died before the parent-death signal was set
        os._exit(1)
    if settings.sandboxed:
        os.environ[SCRATCH] = settings.scratch
        os.close(os.open(settings.scratch, os.O_WRONLY | os.O_CREAT, 0o600))
        enter_sandbox(settings.scratch, settings.readable | readable())
    me = os.getpid()
    limited = False

    def tell(moment: Moment) -> None:
        stay_alone(me, limited)
        channel.send(write_moment(moment) if settings.sandboxed else [pickle.dumps(moment)])

    REPORTER.listener = tell
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            call: Call = pickle.loads(channel.receive())
            limited = call.limits is not None
            set_limits(call.limits)
            answer = run(call) if settings.sandboxed else [run_trusted(call)]
            stay_alone(me, limited)
            channel.send(answer)
    os._exit(0)


def run(call: Call) -> list[memoryview]:
    """Make a call and encode its value or exception as the parts of a message."""
    return write_answer(made(call), kind_of(call.function))


def run_trusted(call: Call) -> bytes:
    """Make a call and encode its value or exception as a pickle."""
    answer = made(call)
    if isinstance(answer, Raised):
        answer = Raised(plain_error(answer.error))
    try:
        return pickle.dumps(answer)
    except Exception as error:
        return pickle.dumps(Raised(RuntimeError(f"an answer must pickle; got {error!r}")))


def made(call: Call) -> Returned | Raised:
    """Make a call and return its value or exception."""
    try:
        return Returned(call.function(call.argument))
    except Exception as error:  # the caller will raise it again
        error.add_note(traceback.format_exc())
        return Raised(error)


def stay_alone(me: int, limited: bool) -> None:
    """Exit if this process is a fork made by a candidate, or, under limits, if the candidate started a child."""
    if os.getpid() != me:
        os._exit(0)
    if not limited:
        return
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # raises if there is no child, running or exited
        os.write(2, b"it started a process of its own\n")
        os._exit(STARTED_A_PROCESS)


def set_up(log: str, memory_bytes: int | None) -> None:
    """Start a session, limit memory, disable core dumps, redirect output to the log, install the fault handler."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        most = bounded(memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1])
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.dirname(log)  # removed with the worker
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    report_faults()


def pin(threads: int, cores: Sequence[int] = ()) -> None:
    """Pin this process to one core per thread, the highest physical cores by default.

    With several threads, also set the environment variables that an OpenMP runtime reads when it is loaded. Threads are
    bound to their cores, and spin for a millisecond before they sleep: longer than the serial part between two parallel
    loops of a program, much shorter than a sample of another program that needs those cores.
    """
    os.sched_setaffinity(0, set(cores or physical_cores()[-threads:]))
    if threads > 1:
        os.environ.update(OPENMP, OMP_NUM_THREADS=str(threads))


def set_limits(limits: Limits | None) -> None:
    """Set the soft resource limits of a call; hard limits are unchanged."""
    soft_limits: dict[int, int | None] = dict.fromkeys((resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE))
    if limits is not None:
        soft_limits = {
            resource.RLIMIT_AS: mapped_bytes() + limits.memory_bytes,
            resource.RLIMIT_CPU: int(time.process_time() + limits.cpu_seconds) + 1,
            resource.RLIMIT_FSIZE: limits.file_bytes,
        }
    for resource_id, soft in soft_limits.items():
        hard = resource.getrlimit(resource_id)[1]
        resource.setrlimit(resource_id, (hard if soft is None else bounded(soft, hard), hard))


def bounded(wanted: int, hard: int) -> int:
    """Clamp a soft limit to the hard limit, which only the superuser may raise."""
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def mapped_bytes() -> int:
    """Return the size of this process's address space, in bytes."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
