"""Limits of a candidate: memory, and time derived from earlier trials; timeline of the running call."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

import numpy as np
import psutil

from autotune.core.errors import PayloadError
from autotune.core.evaluator import TimeLimits
from autotune.core.host.stopwatch import COMPILE, Moment
from autotune.core.payload import Payload
from autotune.core.task import Task
from autotune.core.trial import Trial

READ_SECONDS = 300.0  # to parse, partition or lower an untrusted text: whole models take some ten seconds
LEAST_READ_SECONDS, SECONDS_A_BYTE = 20.0, 5e-4  # for an empty text, and for each of its characters
SCRIPT_SECONDS = 60.0  # to read, print or dry-run a user script
MODEL_SECONDS = 900.0  # for a whole model: the baseline of a large one takes minutes
CANDIDATE_SECONDS = 60.0  # default for one candidate
MEMORY_SHARE = 0.75  # of the machine's memory, for one worker
MEMORY_ALLOWANCE = 6 << 30  # for the compiler
MEMORY_FACTOR = 12  # times the payload's arguments: oracle in float64, checks, packed copies, intermediates
FLOAT64 = 8  # bytes
ENOUGH = 5  # successful trials before limits are derived from them
COMPILE_FACTOR = 8.0  # times the 0.9 quantile of successful trials
LEAST_COMPILE_SECONDS = 3.0
RUN_FACTOR = 200.0  # times the best: anything slower is not worth verifying
LEAST_RUN_SECONDS = 2.0
MOST_DISTURBED = 5.0  # wall-clock limit as a multiple of a CPU time limit, for a candidate that sleeps
LATEST = 30  # trials that limits are derived from, which happens before each trial of a search


def read_seconds(*texts: str) -> float:
    """Return the time limit for reading texts, in seconds: some twenty for kilobytes, more for whole models."""
    return min(READ_SECONDS, LEAST_READ_SECONDS + SECONDS_A_BYTE * sum(map(len, texts)))


def whole_seconds(tasks: Iterable[Task], seconds: float = CANDIDATE_SECONDS) -> float:
    """Return the time limit of a job with a whole payload, in seconds.

    Every occurrence of a task gets the limit of a candidate, ops that no task covers get one more, and the sum is
    doubled for the baseline that is run as well.

    Args:
        tasks: Tasks of the payload.
        seconds: Time limit of a candidate of one task, in seconds.
    """
    return min(MODEL_SECONDS, 2 * seconds * (1 + sum(task.occurrences for task in tasks)))


def worker_memory(workers: int = 1) -> int:
    """Return the address space limit of each of `workers` workers, in bytes."""
    return int(psutil.virtual_memory().total * MEMORY_SHARE) // workers


def count_oom_kills() -> int:
    """Return the kernel's count of out-of-memory kills since boot, memory cgroups included; 0 if it keeps none."""
    with suppress(OSError), open("/proc/vmstat", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    return 0


def needed_bytes(payload: Payload) -> int:
    """Return a lower bound of the memory needed to verify a program of a payload, in bytes.

    The bound counts the arguments, a fenced copy of the written ones, the oracle's results for each case (float64, or
    the dtype of the naive lowering), and two float64 arrays for comparing one output; intermediates are not counted.
    """
    written = sum(argument.bytes for argument in payload.written)
    elements = [prod(argument.shape) for argument in payload.written]
    expected = written if payload.reference is None else FLOAT64 * sum(elements)
    comparison = 2 * FLOAT64 * max(elements, default=0)
    return payload.bytes + written + max(1, len(payload.cases)) * expected + comparison


def check_memory(payload: Payload, workers: int = 1) -> None:
    """Refuse a payload that is too large to be verified on this machine.

    Args:
        payload: Payload to run.
        workers: Number of workers that run it at once.

    Raises:
        PayloadError: The arrays of the payload and of its verification exceed a worker's memory limit.
    """
    most, needed = worker_memory(workers), needed_bytes(payload)
    if needed > most:
        way_out = "choose smaller sizes" if needed > worker_memory() else "choose fewer --jobs"
        raise PayloadError(
            f"arguments of {payload.name} must fit the memory of a worker, {most / 2**30:.3g} GiB, with the copies and "
            f"expected results that they are verified with; they take {needed / 2**30:.3g} GiB; {way_out}"
        )


@dataclass
class CallTimeline:
    """Timeline of a call, from the progress reports of its process.

    Attributes:
        phases: Seconds per phase of the current candidate.
        moment: Last progress report; `None` before the first.
        since: Time of the last progress report, in seconds of the monotonic clock.
        group_since: Start of the current group of phases with a common limit, in seconds of the monotonic clock.
        busy: Function that returns the process's CPU time in seconds; by default wall-clock time.
        group_busy: CPU time of the process when the group began, in seconds.
        begun: Start of the call, in seconds of the monotonic clock.
        begun_busy: CPU time of the process when the call began, in seconds.
    """

    phases: dict[str, float] = field(default_factory=dict)
    moment: Moment | None = None
    since: float = 0.0
    group_since: float = 0.0
    busy: Callable[[], float] = time.monotonic
    group_busy: float = 0.0
    begun: float = field(init=False)
    begun_busy: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self.begun_busy = self.busy()

    def enter(self, moment: Moment) -> None:
        """Record a progress report; all phases of a candidate's compilation share one limit."""
        now = time.monotonic()
        self.settle(now)
        before = self.moment
        if before is None or before.candidate != moment.candidate:
            self.phases.clear()
        same = before is not None and before.candidate == moment.candidate
        if not (same and before is not None and before.phase in COMPILE and moment.phase in COMPILE):
            self.group_since, self.group_busy = now, self.busy()
        self.moment, self.since = moment, now

    def settle(self, now: float) -> None:
        """Add the time since the last progress report to its phase."""
        if self.moment is not None:
            self.phases[self.moment.phase] = self.phases.get(self.moment.phase, 0.0) + now - self.since

    def deadline(self, time_limits: TimeLimits) -> float:
        """Return the earlier deadline of the current phase and of the whole call, in seconds of the monotonic clock.

        Limits apply to CPU time, so the deadline moves while other processes use the core: a compilation of a second
        takes three on a busy machine.
        """
        whole = self.whole_deadline(time_limits)
        bound = time_limits.bound(self.moment.phase) if self.moment is not None else None
        return whole if bound is None else min(whole, self._end(bound, self.group_since, self.group_busy))

    def whole_deadline(self, time_limits: TimeLimits) -> float:
        """Return the deadline of the whole call as of now, in seconds of the monotonic clock."""
        return self._end(time_limits.seconds, self.begun, self.begun_busy)

    def _end(self, bound: float, since: float, busy_before: float) -> float:
        """Return the time at which `bound` seconds of CPU time are used if the process is not preempted from now on."""
        end, now = since + bound, time.monotonic()
        remaining = bound - (self.busy() - busy_before)
        return end if now < end or remaining <= 0 else min(now + remaining, since + MOST_DISTURBED * bound)


def learn_time_limits(trials: Sequence[Trial]) -> TimeLimits:
    """Derive the time limits of a task's next trial from its latest trials."""
    good = [trial for trial in trials[-LATEST:] if trial.outcome == "ok"]
    if len(good) < ENOUGH:
        return TimeLimits()
    compiled = [sum(trial.phases.get(phase, 0.0) for phase in COMPILE) for trial in good]
    typical = float(np.quantile(compiled, 0.9))
    best = min(trial.seconds_median for trial in good)
    return TimeLimits(
        compile_seconds=max(LEAST_COMPILE_SECONDS, COMPILE_FACTOR * typical),
        run_seconds=max(LEAST_RUN_SECONDS, RUN_FACTOR * best),
    )
