"""Workers: every candidate compiles and runs in an isolated process, which may crash, hang, fork or eat memory.

The process persists from job to job; if a candidate ends it, the candidate gets an outcome and the next one a new
process.

A fork of the tuner inherits all descriptors. Calls of both would mix in one channel, and the exit of the fork would
remove our folder. A worker therefore belongs to the process that created it, and forks let it go.
"""

import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import wait
from typing import TypeVar

from autotune.core.care import chosen_care
from autotune.core.errors import AnswerError, AutotuneError, MachineError
from autotune.core.evaluator import Evaluation, Job, TimeLimits
from autotune.core.host.closing import Closing
from autotune.core.host.machine import Machine, Roofs
from autotune.core.host.readable import Readable, readable
from autotune.core.host.scratch import Scratch
from autotune.core.printable import one_line
from autotune.worker.bench.claims import CoreClaim
from autotune.worker.bench.drift import Drift
from autotune.worker.bench.evaluate import evaluate, roofs
from autotune.worker.isolation.answers import (
    Raised,
    Returned,
    check_roofs,
    evaluations,
    kind_of,
    no_evaluation,
    read_answer,
    read_trusted,
)
from autotune.worker.isolation.cause import KEEPER_KILLED, ExitCause, find_cause, overdue
from autotune.worker.isolation.keeper import IsolatedProcess, Keeper
from autotune.worker.isolation.limits import (
    CANDIDATE_SECONDS,
    MEMORY_ALLOWANCE,
    MEMORY_FACTOR,
    CallTimeline,
    count_oom_kills,
    worker_memory,
)
from autotune.worker.isolation.process import Call, Limits, ProcessSettings

A = TypeVar("A")
T = TypeVar("T")
ROOF_SECONDS = 120.0  # independent of the limit of candidates; a quiet core needs two seconds
TRIES = 2  # attempts at a call whose process is killed from outside
LOG_BYTES = 1 << 16  # of a process's output that are read back
MOST_CHARACTERS = 200  # characters of an unexpected error
PRELOAD = ("autotune.worker.bench.ready_answers",)
LIBRARY_PRELOAD = ("autotune.worker.bench.libraries",)


class Worker(Closing):
    """Manager of one isolated process that runs jobs and calls; use as a context manager.

    Args:
        seconds: Time limit of a job in seconds.
        memory_bytes: Limit of the process's address space; by default `MEMORY_SHARE` of the machine's memory.
        sandboxed: Confine the process as `sandbox` does. Without the sandbox it may start programs and write files,
            and its answers are trusted.
        library: The process runs an external library that the user installed: no sandbox, no memory limit, and MLIR
            is not loaded, since its LLVM may differ from the library's.
        threads: Number of threads that compute at once, each on its own core.
        cores: CPUs that the process is pinned to, one per thread; by default the highest that no other tuner claims.
        drift: Drift of the core that it measures on, if shared with other workers.
    """

    def __init__(
        self,
        seconds: float = CANDIDATE_SECONDS,
        memory_bytes: int | None = None,
        *,
        sandboxed: bool = True,
        library: bool = False,
        threads: int = 1,
        cores: tuple[int, ...] = (),
        drift: Drift | None = None,
    ) -> None:
        self.seconds = seconds
        self.memory_bytes = memory_bytes or worker_memory()
        self._preload = LIBRARY_PRELOAD if library else PRELOAD
        self._scratch = Scratch()
        limit = None if library else self.memory_bytes
        self._claim = CoreClaim(threads, cores)
        self._settings = ProcessSettings(
            str(self._scratch.path), limit, sandboxed and not library, threads, self._claim.cores
        )
        self._keeper = Keeper(self._settings, self._preload)
        self._process: IsolatedProcess | None = None
        self._allowed = Readable()
        self._timeline = CallTimeline()
        self._is_ending = False
        self._turn = threading.RLock()  # the process runs one call at a time: other threads wait
        self._drift = drift or Drift()
        self._care = chosen_care()
        self._is_ours = True
        OPEN.add(self)

    @property
    def cores(self) -> tuple[int, ...]:
        """CPUs that the process is pinned to."""
        return self._claim.cores

    def close(self) -> None:
        """Stop the process immediately, and release its folder and cores."""
        if not self._is_ours:
            return
        OPEN.discard(self)
        self._drop_process()
        self._keeper.close()
        self._scratch.close()
        self._claim.close()

    def detach(self) -> None:
        """Close the inherited descriptors in a fork; the process stays with the parent that created this worker."""
        self._is_ours = False
        self._drop_process()
        self._keeper.detach()
        self._scratch.detach()

    def kill(self) -> None:
        """Kill the process from another thread and do not retry its call: the running candidate counts as crashed."""
        self._is_ending = True
        process = self._process
        if process is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(process.gone, signal.SIGKILL)

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time a job's candidates; return one `Evaluation` for each, whatever happens.

        If the process dies on a candidate, only that one fails; the others are evaluated in a new process. If it dies
        while several are timed, all of those fail.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        with self._turn:
            return self._evaluate(job, replace(job.time_limits, seconds=seconds or self.seconds))

    def _evaluate(self, job: Job, time_limits: TimeLimits) -> list[Evaluation]:
        """Evaluate a job; see `evaluate`."""
        memory, seconds = MEMORY_ALLOWANCE + MEMORY_FACTOR * job.payload.bytes, 2 * time_limits.seconds + 1
        limits = Limits(memory, self._settings.threads * seconds)
        job = replace(job, effort=self._care.limit(job.effort))
        results: dict[int, Evaluation] = {}
        while pending := [index for index in range(len(job.candidates)) if index not in results]:
            rest = replace(job, candidates=tuple(job.candidates[i] for i in pending), quiet_reference=self._drift.quiet)
            answer = self._try(rest, limits, time_limits)
            if good := evaluations(answer, len(pending)):
                results.update(zip(pending, good, strict=True))
                continue
            if not isinstance(answer, Evaluation):
                self._end_process()
                (answer,) = no_evaluation(1, "its process")
            moment = self._timeline.moment
            guilty = pending if moment is None or moment.phase == "measure" else pending[moment.candidate :][:1]
            results.update(dict.fromkeys(guilty or pending, answer))
        return [self._drift.learn(results[index]) for index in range(len(job.candidates))]

    def _try(self, job: Job, limits: Limits, time_limits: TimeLimits) -> list[Evaluation] | Evaluation:
        """Compile, verify and time candidates in one call; return an `Evaluation` if the process ends on one."""
        return self._call(Call(evaluate, job, limits), time_limits)

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Run a module-level function in the process; if the process fails, return an `Evaluation` of the failure.

        Args:
            function: Function to run; it may use all of the worker's memory and start processes.
            argument: Argument of the function.
            seconds: Time limit of the call in seconds; by default that of a job.

        Raises:
            AutotuneError: The function raised it.
        """
        with self._turn:
            return self._call(Call(function, argument), TimeLimits(seconds or self.seconds))

    def renew(self) -> None:
        """End the process, so that the next call runs in a new one."""
        with self._turn:
            if self._process is not None:
                self._end_process()

    def roofs(self, machine: Machine) -> Roofs:
        """Measure the machine's roofs.

        Raises:
            MachineError: The process failed.
        """
        rates = self.call(roofs, machine, ROOF_SECONDS)
        if not isinstance(rates, Evaluation):
            return check_roofs(rates)
        way_out = " on a quieter machine" if rates.outcome == "timed-out" else ""
        raise MachineError(
            f"the roofs of the machine must be measured, their process {rates.outcome}: {rates.diagnostic}; "
            f"try again{way_out}"
        )

    def _call(self, call: Call, time_limits: TimeLimits) -> "T | Evaluation":
        """Make a call; return its value, or an `Evaluation` with the cause of its failure.

        A process that was killed from outside says nothing about the call, which is then repeated in a new process.
        """
        for remaining_tries in reversed(range(TRIES)):
            open(self._settings.log, "wb").close()  # truncate it
            process = self._ready_process()
            self._timeline = CallTimeline(busy=process.busy_seconds)
            oom_kills = count_oom_kills()
            try:
                answer = self._converse(process, call, time_limits)
            except BaseException:
                self._end_process()
                raise
            if isinstance(answer, Raised):
                return self._judge(answer.error)
            if answer is not None:
                value: T = answer.value
                return value
            cause = self._find_end(process, time_limits, oom_kills)
            if not cause.is_foreign or self._is_ending:
                break
            if not remaining_tries:
                cause = replace(cause, diagnostic=f"{cause.diagnostic}, {TRIES} times in a row")
        phase = self._timeline.moment.phase if self._timeline.moment is not None else "preparation"
        return Evaluation(
            cause.outcome, diagnostic=f"in {phase}: {cause.diagnostic}", phases=dict(self._timeline.phases)
        )

    def _converse(self, process: IsolatedProcess, call: Call, time_limits: TimeLimits) -> Returned | Raised | None:
        """Make a call and track its phases; return its answer, or `None` if it times out or its process ends."""
        read = read_answer if self._settings.sandboxed else read_trusted
        result_type = kind_of(call.function)
        try:
            process.channel.send([pickle.dumps(call)], self._timeline.whole_deadline(time_limits))
            while time.monotonic() < (until := self._timeline.deadline(time_limits)):
                ready = wait([process.channel.fileno(), process.gone], max(0.0, until - time.monotonic()))
                if process.channel.fileno() in ready:
                    message = read(process.channel.receive(until), result_type)
                    if isinstance(message, Returned | Raised):
                        return message
                    self._timeline.enter(message)
                elif ready:
                    return None
        except (EOFError, OSError):
            pass
        except AnswerError as error:  # the process no longer runs our code alone
            self._end_process()
            return Returned(Evaluation("crashed", diagnostic=str(error), phases=self._phases()))
        return None

    def _judge(self, error: Exception) -> Evaluation:
        """Convert an exception of a candidate to an evaluation; re-raise one that is not the candidate's fault."""
        if isinstance(error, MemoryError):
            return Evaluation(
                "out-of-memory", diagnostic="the worker's memory limit was reached", phases=self._phases()
            )
        if isinstance(error, AutotuneError | OSError) or not self._settings.sandboxed:
            raise error
        self._end_process()  # its state is unknown: a bug of ours, or a claim of untrusted code
        cause = f"it raised {type(error).__name__}: {one_line(str(error))[:MOST_CHARACTERS]}"
        diagnostic = f"{cause}; that is a fault of autotune, please report it"
        return Evaluation("crashed", diagnostic=diagnostic, phases=self._phases())

    def _find_end(self, process: IsolatedProcess, time_limits: TimeLimits, oom_kills: int) -> ExitCause:
        """Determine why a call ended its process or timed out, and end the process.

        Args:
            process: The process.
            time_limits: Limits of the call.
            oom_kills: The kernel's count of out-of-memory kills when the call began.
        """
        now, whole = time.monotonic(), self._timeline.whole_deadline(time_limits)
        late = now >= self._timeline.deadline(time_limits) and not wait([process.gone], 0)
        if not late:  # its channel is closed: it is exiting
            late = not wait([process.gone], max(1.0, whole - now))
        self._timeline.settle(time.monotonic())
        code = self._end_process()
        if code is None:
            return KEEPER_KILLED
        if late:
            phase = self._timeline.moment.phase if self._timeline.moment is not None else "preparation"
            return overdue(phase, time_limits, whole=now >= whole)
        with open(self._settings.log, encoding="utf-8", errors="replace") as file:
            output = file.read(LOG_BYTES)
        return find_cause(code, output, memory_ran_out=count_oom_kills() > oom_kills)

    def _phases(self) -> dict[str, float]:
        self._timeline.settle(time.monotonic())
        return dict(self._timeline.phases)

    def _ready_process(self) -> IsolatedProcess:
        """Return the process; start a new one if it is gone or may not read files that were opened since.

        The keeper is restarted, too, if it is gone.
        """
        allowed = readable()
        must_read_more = self._settings.sandboxed and not self._allowed >= allowed
        # A process that was killed between two calls must not count as a failure of the next.
        if self._process is not None and (must_read_more or wait([self._process.gone], 0)):
            self._end_process()
        if self._process is None:
            self._allowed = allowed
            try:
                self._process = self._keeper.start(allowed)
            except (EOFError, OSError):
                self._keeper.close()
                self._keeper = Keeper(self._settings, self._preload)
                self._process = self._keeper.start(allowed)
        return self._process

    def _end_process(self) -> int | None:
        """Kill the process and its descendants; return its exit code, `None` if the keeper is gone."""
        self._drop_process()
        with suppress(EOFError, OSError):
            return self._keeper.end()
        return None

    def _drop_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


OPEN: "weakref.WeakSet[Worker]" = weakref.WeakSet()


def detach_all() -> None:
    """Release every worker in a fork, which leaves them to the parent process."""
    for worker in list(OPEN):
        worker.detach()
    OPEN.clear()


os.register_at_fork(after_in_child=detach_all)
