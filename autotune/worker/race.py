r"""Race: interleaved timing of our programs and other libraries, each in its own process, scheduled by the tuner.

    tuner --turn--> process of our programs      reference kernel, baseline, default, best
      |  \--turn--> process of a library         nothing of MLIR, no limits of ours
      \-----turn--> process of another library

All processes are pinned to one core, and one runs at a time. Every round takes one sample of each in random order.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from autotune.core.care import chosen_care
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort, Evaluation
from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.stats import LONGEST, SHORTEST
from autotune.core.trial import Samples
from autotune.worker.bench.entry import Entry, ExpectedPart, Verification
from autotune.worker.bench.libraries import enter_library, take_expected
from autotune.worker.bench.measure import Batch, is_spent
from autotune.worker.bench.programs import (
    REFERENCE,
    OracleQuestion,
    enter_program,
    enter_reference,
    expected_part,
    prepare_oracle,
)
from autotune.worker.bench.turns import FirstTurn, Turn, calibrate_entry, take_sample
from autotune.worker.worker import Worker

PART_ELEMENTS = 1 << 24  # elements of an expected output per message: 128 MiB in float64
A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class EntryProcess:
    """An entry, and the process that it runs in.

    Attributes:
        name: Name of the entry.
        worker: Worker whose process runs the entry.
        admit: Function that prepares and verifies the entry in that process.
    """

    name: str
    worker: Worker
    admit: Callable[[Worker], Verification | Evaluation]

    def enter(self) -> Verification:
        """Prepare and verify the entry; the process keeps it for the samples."""
        return verification_of(self.admit(self.worker))

    def calibrate(self, seconds: float) -> Batch | Verification:
        """Return the batch with which a sample lasts `seconds`; a status if the process fails."""
        return self._ask(calibrate_entry, FirstTurn(self.name, seconds))

    def sample(self, batch: Batch) -> float | Verification:
        """Take one sample in seconds per call; return a status if the process fails or returns an implausible time."""
        seconds = self._ask(take_sample, Turn(self.name, batch))
        if isinstance(seconds, Verification) or SHORTEST <= seconds <= LONGEST:
            return seconds
        return Verification("crashed", diagnostic="its process answered with what is no time")

    def _ask(self, function: Callable[[A], T | None], turn: A) -> T | Verification:
        """Run one turn; if another entry ended the process, enter the new process first."""
        for _ in range(2):
            answer = self.worker.call(function, turn)
            if isinstance(answer, Evaluation):
                return verification_of(answer)
            if answer is not None:
                return answer
            verification = self.enter()
            if verification.status != "ok":
                return verification
        return Verification("crashed", diagnostic="its process ended between its turns, twice")


@dataclass(frozen=True)
class Finish:
    """Result of a race.

    Attributes:
        samples: Samples of each entry that finished, by name, with those of the reference kernel.
        fallen: Status of each entry that failed, by name.
    """

    samples: dict[str, Samples] = field(default_factory=dict)
    fallen: dict[str, Verification] = field(default_factory=dict)


def verification_of(result: Verification | Evaluation) -> Verification:
    """Convert the evaluation of an entry whose process failed to a status; return a status unchanged."""
    return result if isinstance(result, Verification) else Verification(result.outcome, diagnostic=result.diagnostic)


def program(entry: Entry, worker: Worker) -> EntryProcess:
    """Return the entry of one of our programs, in the process that they share."""
    return EntryProcess(entry.name, worker, lambda home: home.call(enter_program, entry))


def library(entry: Entry, worker: Worker, ours: Worker) -> EntryProcess:
    """Return the entry of a library in its own process; the worker `ours` computes its expected outputs."""
    bare = replace(entry, payload=replace(entry.payload, reference=None))  # an oracle may need the compiler package

    def admit(home: Worker) -> Verification | Evaluation:
        for _ in range(2):
            if (failure := hand_over(entry.payload, entry.seed, ours, home)) is not None:
                return failure
            if (verification := home.call(enter_library, bare)) is not None:
                return verification
        return Verification("crashed", diagnostic="its process was killed from outside before its turns, twice")

    return EntryProcess(entry.name, worker, admit)


def check_oracle(payload: Payload, seed: int, ours: Worker) -> None:
    """Refuse a payload whose oracle takes too long, before every program and library in turn waits for it.

    Raises:
        PayloadError: The oracle exceeds the worker's time limit of a call, or is not finite.
    """
    answer = ours.call(prepare_oracle, OracleQuestion(payload, seed))
    if isinstance(answer, Evaluation) and answer.outcome == "timed-out":
        raise PayloadError(
            f"the oracle of {payload.name} must end in time, it was {answer.outcome}: {answer.diagnostic}; "
            "change a loop of it that does not end, or choose smaller sizes"
        )


def hand_over(payload: Payload, seed: int, ours: Worker, theirs: Worker) -> Evaluation | None:
    """Send the expected outputs of every case to another process in parts; return the failure if there is one.

    Raises:
        PayloadError: The oracle is not finite.
    """
    for case in range(max(1, len(payload.cases))):
        for output in range(len(payload.outputs)):
            start, size = 0, 1
            while start < size:
                part = ours.call(expected_part, OracleQuestion(payload, seed, case, output, start, PART_ELEMENTS))
                if isinstance(part, Evaluation):
                    return replace(part, diagnostic=f"the oracle of {payload.name} fails: {part.diagnostic}")
                failure = theirs.call(take_expected, part)
                if isinstance(failure, Evaluation):
                    return failure
                start, size = start + part.values.size, size_of(part, payload)
    return None


def size_of(part: ExpectedPart, payload: Payload) -> int:
    """Return the number of elements of the output that a part belongs to.

    Raises:
        PayloadError: The shape of the oracle's output differs from the payload's.
    """
    output = payload.outputs[part.output]
    if part.shape != output.shape:
        raise PayloadError(
            f"the oracle of {payload.name} must give {output.name} {output.shape}, it gives {part.shape}"
        )
    size = 1
    for extent in part.shape:
        size *= extent
    return size


def race(entries: Sequence[EntryProcess], ours: Worker, machine: Machine, effort: Effort) -> Finish:
    """Time all entries, interleaved with each other and with the reference kernel.

    Sample i of one entry and sample i of another are taken in the same round. An entry whose process fails is dropped,
    and the others go on.
    """
    effort = chosen_care().limit(effort)
    reference = EntryProcess(REFERENCE, ours, lambda home: home.call(enter_reference, machine))
    finish, batches = Finish(), {}
    for entry in (*entries, reference):
        batch = entry.calibrate(effort.sample_seconds)
        if isinstance(batch, Verification):
            finish.fallen[entry.name] = batch
        else:
            batches[entry.name] = batch
    times = run_rounds([entry for entry in (*entries, reference) if entry.name in batches], batches, finish, effort)
    if REFERENCE in finish.fallen:  # no time can be judged without it
        reference_failure = finish.fallen.pop(REFERENCE)
        return Finish({}, {entry.name: finish.fallen.get(entry.name, reference_failure) for entry in entries})
    reference_times = tuple(times[REFERENCE])
    for entry in entries:
        if entry.name not in finish.fallen:
            finish.samples[entry.name] = Samples(tuple(times[entry.name]), reference_times, batches[entry.name].calls)
    return finish


def run_rounds(
    entries: Sequence[EntryProcess], batches: dict[str, Batch], finish: Finish, effort: Effort
) -> dict[str, list[float]]:
    """Take samples of all entries in rounds, in seconds per call; record an entry that fails in `finish`."""
    order = list(entries)
    shuffle = random.Random(0).shuffle
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    start, rounds = time.perf_counter(), 0
    while REFERENCE not in finish.fallen and not is_spent(effort, rounds, start):
        shuffle(order)
        for entry in order:
            if entry.name in finish.fallen:
                continue
            seconds = entry.sample(batches[entry.name])
            if isinstance(seconds, Verification):
                finish.fallen[entry.name] = seconds
            else:
                times[entry.name].append(seconds)
        rounds += 1
    return times
