"""What runs inside an isolated process: limits, a loop that answers calls, and a report when code faults.

Nothing here trusts the code that is called: it may write anywhere, print, fork, or never return.
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
from autotune.worker.isolation.sandbox import raise_walls

OPENMP = {"OMP_PLACES": "threads", "OMP_PROC_BIND": "close", "KMP_BLOCKTIME": "1"}  # the last in milliseconds
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
STARTED_A_PROCESS = 113  # exit code


@dataclass(frozen=True)
class Limits:
    """What one call may take.

    Attributes:
        memory_bytes: Address space beyond what is mapped when the call begins.
        cpu_seconds: Processor time.
        file_bytes: Length of any file it writes, its output included.
    """

    memory_bytes: int
    cpu_seconds: float
    file_bytes: int = 1 << 26


@dataclass(frozen=True)
class Call:
    """A function of a module, and its argument.

    Attributes:
        function: Function to call.
        argument: Argument of the call.
        limits: Limits of time and memory; `None` for code that is trusted not to run away, and may start processes.
    """

    function: Callable[[Any], Any]
    argument: Any
    limits: Limits | None = None


@dataclass(frozen=True)
class Surroundings:
    """What every process of a worker finds.

    Attributes:
        folder: Private folder of the worker.
        memory_bytes: Most address space of a process; `None` for as much as it likes.
        sandboxed: Whether the walls of the sandbox are raised before any call.
        threads: Threads that may compute at once, of a core each.
        cores: CPUs to stay on, as many as threads; none for the highest of those that there are.
        readable: What a process in the sandbox may read, by what the tuner has imported and opened.
    """

    folder: str
    memory_bytes: int | None
    sandboxed: bool
    threads: int = 1
    cores: tuple[int, ...] = ()
    readable: Readable = field(default_factory=Readable)

    @property
    def log(self) -> str:
        """File that a process writes its output to."""
        return os.path.join(self.folder, "log")

    @property
    def scratch(self) -> str:
        """File that a process may overwrite, the only one."""
        return os.path.join(self.folder, "scratch")


def serve(channel: Channel, around: Surroundings, keeper: int) -> None:
    """Answer calls until the channel closes. Ends the process; never returns."""
    try:
        set_up(around.log, around.memory_bytes)
    except FileNotFoundError:  # the tuner was killed, and another one swept its folder away: nobody waits for answers
        os._exit(1)
    pin(around.threads, around.cores)
    if os.getppid() != keeper:  # it died before we asked to die with it
        os._exit(1)
    if around.sandboxed:
        os.environ[SCRATCH] = around.scratch
        os.close(os.open(around.scratch, os.O_WRONLY | os.O_CREAT, 0o600))
        raise_walls(around.scratch, around.readable | readable())
    me = os.getpid()
    limited = False

    def tell(moment: Moment) -> None:
        stay_alone(me, limited)
        channel.send(write_moment(moment) if around.sandboxed else [pickle.dumps(moment)])

    REPORTER.listener = tell
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            call: Call = pickle.loads(channel.receive())
            limited = call.limits is not None
            set_limits(call.limits)
            answer = run(call) if around.sandboxed else [run_trusted(call)]
            stay_alone(me, limited)
            channel.send(answer)
    os._exit(0)


def run(call: Call) -> list[memoryview]:
    """Call, whatever it raises; an answer, as the parts of a message."""
    return write_answer(made(call), kind_of(call.function))


def run_trusted(call: Call) -> bytes:
    """Call, whatever it raises; an answer, as a pickle."""
    answer = made(call)
    if isinstance(answer, Raised):
        answer = Raised(plain_error(answer.error))
    try:
        return pickle.dumps(answer)
    except Exception as error:
        return pickle.dumps(Raised(RuntimeError(f"an answer must pickle; got {error!r}")))


def made(call: Call) -> Returned | Raised:
    """The answer to a call."""
    try:
        return Returned(call.function(call.argument))
    except Exception as error:  # the caller will raise it again
        error.add_note(traceback.format_exc())
        return Raised(error)


def stay_alone(me: int, limited: bool) -> None:
    """End a process that a candidate forked, and one that forked."""
    if os.getpid() != me:
        os._exit(0)
    if not limited:
        return
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # raises where there is no child, alive or dead
        os.write(2, b"it started a process of its own\n")
        os._exit(STARTED_A_PROCESS)


def set_up(log: str, memory_bytes: int | None) -> None:
    """A session of its own, a bound on memory, no core dumps, output to the log, a report of faults."""
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
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.dirname(log)  # what is left there goes with the worker
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    report_faults()


def pin(threads: int, cores: Sequence[int] = ()) -> None:
    """Stay on a core, the highest if none is named; several threads on as many cores, each on its own.

    An OpenMP runtime reads when it is loaded that its threads keep to their cores, and how long they spin for the next
    parallel loop before they sleep: longer than a program is busy between two of them, much shorter than a sample of
    another program that wants those cores.
    """
    os.sched_setaffinity(0, set(cores or physical_cores()[-threads:]))
    if threads > 1:
        os.environ.update(OPENMP, OMP_NUM_THREADS=str(threads))


def set_limits(limits: Limits | None) -> None:
    """Set the soft limits of a call; the hard ones stay."""
    wanted: dict[int, int | None] = dict.fromkeys((resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE))
    if limits is not None:
        wanted = {
            resource.RLIMIT_AS: mapped_bytes() + limits.memory_bytes,
            resource.RLIMIT_CPU: int(time.process_time() + limits.cpu_seconds) + 1,
            resource.RLIMIT_FSIZE: limits.file_bytes,
        }
    for what, soft in wanted.items():
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (hard if soft is None else bounded(soft, hard), hard))


def bounded(wanted: int, hard: int) -> int:
    """A limit that may be set: not above the hard one, which only the system's administrator may raise."""
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def mapped_bytes() -> int:
    """Address space of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
