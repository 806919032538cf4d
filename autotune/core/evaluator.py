"""`Evaluator`: compiles, verifies and times candidates; the `Job` it is given, the `Evaluation` it gives back."""

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
    """How long to measure.

    Attributes:
        samples: Samples to take at most.
        seconds: Time after which no further sample is taken, once there are enough of them.
        sample_seconds: Length of one sample to aim for.
        has_joules: Whether energy is measured, too.
    """

    samples: int = 15
    seconds: float = 0.5
    sample_seconds: float = 1e-3
    has_joules: bool = False


@dataclass(frozen=True)
class TimeLimits:
    """Seconds that a job and its parts may take; `None` for no bound of their own.

    Attributes:
        seconds: The whole job.
        compile_seconds: One candidate, from its script to machine code.
        run_seconds: One candidate's first call, with its verification.
    """

    seconds: float = inf
    compile_seconds: float | None = None
    run_seconds: float | None = None

    def bound(self, phase: str) -> float | None:
        """What the group of phases that `phase` is of may take."""
        if phase in COMPILE:
            return self.compile_seconds
        return self.run_seconds if phase == "verify" else None


@dataclass(frozen=True)
class Job:
    """Work for an evaluator: candidates of one payload.

    Attributes:
        payload: Payload that the candidates compute.
        candidates: One to be measured with the reference kernel, or several to be measured interleaved.
        machine: The host.
        seed: Seed of the input data.
        effort: Number of samples and seconds to measure with.
        best_seconds: Best time so far, to give up early on a hopeless candidate.
        time_limits: Seconds that each phase may take; the evaluator sets the limit of the whole.
        quiet_reference: The reference kernel's best time so far.
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
    """Outcome of one candidate; fields are those of `Trial`, `buffers` what it means in `Program`.

    `first_call` is what the call took that was verified, in seconds, with whatever a first call meets; 0 if there was
    none.
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
        """Compile, verify and time a job's candidates; one `Evaluation` each, in their order, whatever happens.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        ...


class Slots(Protocol):
    """Evaluates as many jobs at once as it has slots: those of a cluster, or one that does a job when it gets it."""

    @property
    def is_ordered(self) -> bool:
        """Whether results come in the order of the jobs, so that a sweep that is run again asks as it did before."""
        ...

    def count(self) -> int:
        """Jobs that may be under way now, at least one.

        Raises:
            MachineError: No worker is left, and none joined.
        """
        ...

    def submit(self, job: Job) -> int:
        """Begin a job; gives the number by which `wait` tells of it."""
        ...

    def wait(self) -> tuple[int, list[Evaluation]]:
        """The number of a job that is done, and an `Evaluation` for each of its candidates.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
            MachineError: No worker is left, and none joined.
        """
        ...


class OneSlot:
    """An evaluator as the only slot: a job is done when it is submitted."""

    is_ordered = True

    def __init__(self, evaluator: Evaluator) -> None:
        """Begin with nothing under way.

        Args:
            evaluator: Compiles, verifies and times candidates.
        """
        self._evaluator = evaluator
        self._done: list[tuple[int, list[Evaluation]]] = []
        self._submitted = 0

    def count(self) -> int:
        """One."""
        return 1

    def submit(self, job: Job) -> int:
        """Do a job; gives its number."""
        self._submitted += 1
        self._done.append((self._submitted, self._evaluator.evaluate(job)))
        return self._submitted

    def wait(self) -> tuple[int, list[Evaluation]]:
        """The number of the job that is done, and the outcomes of its candidates."""
        return self._done.pop(0)
