"""What a candidate may take: memory, and time by what others took; and how long the present one has taken."""

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

READ_SECONDS = 300.0  # to parse, partition or lower a text of somebody: whole models take some ten
LEAST_READ_SECONDS, SECONDS_A_BYTE = 20.0, 5e-4  # for a text of no length, and for each of its characters
SCRIPT_SECONDS = 60.0  # to read, write out or dry-run a user's own script
MODEL_SECONDS = 900.0  # for a whole model: the baseline of a large one takes minutes
CANDIDATE_SECONDS = 60.0  # for one candidate, where nobody says
MEMORY_SHARE = 0.75  # of the machine's memory, for one worker
MEMORY_ALLOWANCE = 6 << 30  # for the compiler
MEMORY_FACTOR = 12  # times the payload's arguments: oracle in float64, checks, packed copies, intermediates
FLOAT64 = 8  # bytes
ENOUGH = 5  # trials that worked, before any of them is a measure of others
COMPILE_FACTOR = 8.0  # of what nine in ten good candidates take
LEAST_COMPILE_SECONDS = 3.0
RUN_FACTOR = 200.0  # of the best: slower is hopeless, not worth verifying
LEAST_RUN_SECONDS = 2.0
MOST_DISTURBED = 5.0  # times a limit of processor time: a candidate that sleeps is ended then
LATEST = 30  # trials looked at: a search asks before each of its trials


def read_seconds(*texts: str) -> float:
    """Seconds that texts may take to be read: some twenty for kilobytes, more for whole models."""
    return min(READ_SECONDS, LEAST_READ_SECONDS + SECONDS_A_BYTE * sum(map(len, texts)))


def whole_seconds(tasks: Iterable[Task], seconds: float = CANDIDATE_SECONDS) -> float:
    """Seconds that a job with a whole payload may take.

    Each of its ops alone may take as long as a candidate, what no task covers as long as one of them, and the baseline
    is run beside the whole.

    Args:
        tasks: Tasks of the payload.
        seconds: Seconds that a candidate of a task may take.
    """
    return min(MODEL_SECONDS, 2 * seconds * (1 + sum(task.occurrences for task in tasks)))


def worker_memory(workers: int = 1) -> int:
    """Most address space of each of so many workers, in bytes."""
    return int(psutil.virtual_memory().total * MEMORY_SHARE) // workers


def count_oom_kills() -> int:
    """Processes that the kernel killed since it started because memory ran out; 0 where it does not count them.

    It counts those of every memory cgroup, too.
    """
    with suppress(OSError), open("/proc/vmstat", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    return 0


def needed_bytes(payload: Payload) -> int:
    """Memory that a payload takes at least where a program of it is verified, in bytes.

    Its arguments, a fenced copy of what is written, what the oracle expects at each case (float64, or as the plain
    lowering writes it), and two float64 arrays while an output is compared; no intermediates of programs.
    """
    written = sum(argument.bytes for argument in payload.written)
    elements = [prod(argument.shape) for argument in payload.written]
    expected = written if payload.reference is None else FLOAT64 * sum(elements)
    comparison = 2 * FLOAT64 * max(elements, default=0)
    return payload.bytes + written + max(1, len(payload.cases)) * expected + comparison


def check_memory(payload: Payload, workers: int = 1) -> None:
    """Refuse what cannot be verified here.

    Args:
        payload: Payload to run.
        workers: Number of workers that run it at once.

    Raises:
        PayloadError: The arrays of the payload and those that it is verified with take more memory than a worker may.
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
    """Progress of a call, from the moments that its process reported.

    Attributes:
        phases: Seconds by phase of the candidate that is being worked on.
        moment: The last one; `None` before the first.
        since: Time when the last moment was recorded, in seconds of the monotonic clock.
        group_since: Time when the group of phases began that a limit holds for, in seconds of the monotonic clock.
        busy: Gives the processor time that the process has used, in seconds; by default all time counts as such.
        group_busy: Processor time that had been used when the group began, in seconds.
        begun: Time when the call was made, in seconds of the monotonic clock.
        begun_busy: Processor time that had been used then, in seconds.
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
        """Record another moment."""
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
        """Count the time of the phase that ends now."""
        if self.moment is not None:
            self.phases[self.moment.phase] = self.phases.get(self.moment.phase, 0.0) + now - self.since

    def deadline(self, time_limits: TimeLimits) -> float:
        """When the present phase or the whole call ends, whichever is first, as far as it is known now.

        What others took of the processor is given back: a compilation of a second takes three on a busy machine.
        """
        whole = self.whole_deadline(time_limits)
        bound = time_limits.bound(self.moment.phase) if self.moment is not None else None
        return whole if bound is None else min(whole, self._end(bound, self.group_since, self.group_busy))

    def whole_deadline(self, time_limits: TimeLimits) -> float:
        """When the whole call ends, as far as it is known now."""
        return self._end(time_limits.seconds, self.begun, self.begun_busy)

    def _end(self, bound: float, since: float, busy_before: float) -> float:
        """When so many seconds of processor time are used, if all of the processor is ours from now on."""
        end, now = since + bound, time.monotonic()
        left = bound - (self.busy() - busy_before)
        return end if now < end or left <= 0 else min(now + left, since + MOST_DISTURBED * bound)


def learn_time_limits(trials: Sequence[Trial]) -> TimeLimits:
    """Time limits of the next trial of a task, from its latest trials."""
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
