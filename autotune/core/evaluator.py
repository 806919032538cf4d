"""`Evaluator`: compiles, verifies and times the candidates of a `Job`, and returns an `Evaluation` of each."""

from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine
from autotune.core.host.stopwatch import COMPILE
from autotune.core.payload import Payload
from autotune.core.trial import Outcome, Samples


@dataclass(frozen=True)
class Effort:
    """Limits of one measurement.

    Attributes:
        samples: Largest number of samples.
        seconds: Seconds after which no further sample is taken, once there are enough of them.
        sample_seconds: Target duration of one sample, in seconds.
        has_joules: Whether energy is measured, too.
    """

    samples: int = 15
    seconds: float = 0.5
    sample_seconds: float = 1e-3
    has_joules: bool = False


@dataclass(frozen=True)
class TimeLimits:
    """Time limits of a job and of its phases, in seconds; `None` for no limit.

    Attributes:
        seconds: Limit of the whole job.
        compile_seconds: Limit of the compilation of one candidate, from its script to machine code.
        run_seconds: Limit of one candidate's first call, with its verification.
    """

    seconds: float = inf
    compile_seconds: float | None = None
    run_seconds: float | None = None

    def bound(self, phase: str) -> float | None:
        """Return the limit of the group of phases that `phase` belongs to; `None` where it has none."""
        if phase in COMPILE:
            return self.compile_seconds
        return self.run_seconds if phase == "verify" else None


@dataclass(frozen=True)
class Job:
    """Work for an evaluator: candidates of one payload.

    Attributes:
        payload: Payload that the candidates compute.
        candidates: One candidate, measured beside the reference kernel, or several, measured interleaved.
        machine: The host.
        seed: Seed of the input data.
        effort: Limits of each measurement.
        best_seconds: Best seconds a call so far, to prune a slow candidate early; `None` before there is one.
        time_limits: Limits of each phase, in seconds; the evaluator sets the limit of the whole.
        quiet_reference: Best time of the reference kernel so far, in seconds.
        known: Fingerprints of IR and machine code of earlier candidates; a candidate with one of them is a duplicate.
    """

    payload: Payload
    candidates: tuple[Candidate, ...]
    machine: Machine
    seed: int = 0
    effort: Effort = field(default_factory=Effort)
    best_seconds: float | None = None
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    quiet_reference: float = inf
    known: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Evaluation:
    """Outcome of one candidate, with the fields of `Trial`, and `buffers`, the plan of its buffers in the arena.

    `first_call` is the duration of the verified call, in seconds, including one-time costs of a first call; 0 if there
    was none.
    """

    outcome: Outcome
    samples: Samples | None = None
    max_error: float | None = None
    diagnostic: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    buffers: BufferPlan | None = None
    scheduled: str = ""
    compiled: str = ""
    first_call: float = 0.0


class Evaluator(Protocol):
    """Evaluates candidates: a worker on this machine, or a stand-in for it."""

    def evaluate(self, job: Job) -> list[Evaluation]:
        """Compile, verify and time a job's candidates, and return an `Evaluation` of each, in their order.

        A candidate that fails, even by ending the process, has an `Evaluation` that says so.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        ...


class Slots(Protocol):
    """Asynchronous evaluator of several jobs: the slots of a cluster, or a single local slot."""

    @property
    def is_ordered(self) -> bool:
        """Whether results arrive in the order of submission, which makes a repeated sweep ask the same configs."""
        ...

    def count(self) -> int:
        """Return the number of jobs that may be under way now, at least 1.

        Raises:
            MachineError: No worker is left, and none joined.
        """
        ...

    def submit(self, job: Job) -> int:
        """Start a job, and return the number that `wait` identifies it by."""
        ...

    def wait(self) -> tuple[int, list[Evaluation]]:
        """Wait for a job to finish, and return its number and an `Evaluation` of each of its candidates.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
            MachineError: No worker is left, and none joined.
        """
        ...


class OneSlot:
    """A single slot, which evaluates a job synchronously when it is submitted."""

    is_ordered = True

    def __init__(self, evaluator: Evaluator) -> None:
        """Wrap an evaluator.

        Args:
            evaluator: Evaluator of the jobs.
        """
        self._evaluator = evaluator
        self._done: list[tuple[int, list[Evaluation]]] = []
        self._submitted = 0

    def count(self) -> int:
        """Return 1."""
        return 1

    def submit(self, job: Job) -> int:
        """Evaluate a job, and return its number."""
        self._submitted += 1
        self._done.append((self._submitted, self._evaluator.evaluate(job)))
        return self._submitted

    def wait(self) -> tuple[int, list[Evaluation]]:
        """Return the number of the oldest finished job, and the outcomes of its candidates."""
        return self._done.pop(0)
