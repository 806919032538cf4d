r"""A race: programs of ours and other libraries, each in its process, take samples in turn as the tuner says.

    tuner --turn--> process of our programs      reference kernel, baseline, default, best
      |  \--turn--> process of a library         nothing of MLIR, no limits of ours
      \-----turn--> process of another library

All processes are pinned to one core, and one runs at a time. Every round is one sample of each, in random order.
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

PART_ELEMENTS = 1 << 24  # of an expected output in one message: 128 MiB in float64
A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class EntryProcess:
    """An entry in its process.

    Attributes:
        name: Name of the entry.
        worker: Worker whose process it runs in.
        admit: Prepares and verifies it in that process.
    """

    name: str
    worker: Worker
    admit: Callable[[Worker], Verification | Evaluation]

    def enter(self) -> Verification:
        """Prepare and verify it; the process remembers it."""
        return verification_of(self.admit(self.worker))

    def calibrate(self, seconds: float) -> Batch | Verification:
        """How to take its samples, so that each lasts so many seconds; a status if its process fails over it."""
        return self._ask(calibrate_entry, FirstTurn(self.name, seconds))

    def sample(self, batch: Batch) -> float | Verification:
        """Seconds a call; a status if its process fails over it, or says what is no time."""
        found = self._ask(take_sample, Turn(self.name, batch))
        if isinstance(found, Verification) or SHORTEST <= found <= LONGEST:
            return found
        return Verification("crashed", diagnostic="its process answered with what is no time")

    def _ask(self, function: Callable[[A], T | None], turn: A) -> T | Verification:
        """Have a turn; where another entry ended the process, this one enters the next first."""
        for _ in range(2):
            found = self.worker.call(function, turn)
            if isinstance(found, Evaluation):
                return verification_of(found)
            if found is not None:
                return found
            verification = self.enter()
            if verification.status != "ok":
                return verification
        return Verification("crashed", diagnostic="its process ended between its turns, twice")


@dataclass(frozen=True)
class Finish:
    """What came of a race.

    Attributes:
        samples: Times of all that finished, by name, with those of the reference kernel.
        fallen: Status of all that did not.
    """

    samples: dict[str, Samples] = field(default_factory=dict)
    fallen: dict[str, Verification] = field(default_factory=dict)


def verification_of(found: Verification | Evaluation) -> Verification:
    """A status; also of an entry whose process died."""
    return found if isinstance(found, Verification) else Verification(found.outcome, diagnostic=found.diagnostic)


def program(entry: Entry, worker: Worker) -> EntryProcess:
    """One of our programs, in the process of all of them."""
    return EntryProcess(entry.name, worker, lambda home: home.call(enter_program, entry))


def library(entry: Entry, worker: Worker, ours: Worker) -> EntryProcess:
    """A library in a process of its own; what it should compute is known to `ours`."""
    bare = replace(entry, payload=replace(entry.payload, reference=None))  # an oracle may be of the compiler's package

    def admit(home: Worker) -> Verification | Evaluation:
        for _ in range(2):
            if (failure := hand_over(entry.payload, entry.seed, ours, home)) is not None:
                return failure
            if (found := home.call(enter_library, bare)) is not None:
                return found
        return Verification("crashed", diagnostic="its process was killed from outside before its turns, twice")

    return EntryProcess(entry.name, worker, admit)


def check_oracle(payload: Payload, seed: int, ours: Worker) -> None:
    """Refuse a payload whose oracle takes too long before all programs and libraries wait for it, one after the other.

    Raises:
        PayloadError: The oracle took longer than a call of this worker may, or is not finite.
    """
    found = ours.call(prepare_oracle, OracleQuestion(payload, seed))
    if isinstance(found, Evaluation) and found.outcome == "timed-out":
        raise PayloadError(
            f"the oracle of {payload.name} must end in time, it was {found.outcome}: {found.diagnostic}; "
            "change a loop of it that does not end, or choose smaller sizes"
        )


def hand_over(payload: Payload, seed: int, ours: Worker, theirs: Worker) -> Evaluation | None:
    """Tell a process what the oracle expects of the outputs at every case; the failure, if there is one.

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
                taken = theirs.call(take_expected, part)
                if isinstance(taken, Evaluation):
                    return taken
                start, size = start + part.values.size, size_of(part, payload)
    return None


def size_of(part: ExpectedPart, payload: Payload) -> int:
    """Elements of the whole output that a part is of.

    Raises:
        PayloadError: The oracle gives an output of another shape.
    """
    wanted = payload.outputs[part.output]
    if part.shape != wanted.shape:
        raise PayloadError(
            f"the oracle of {payload.name} must give {wanted.name} {wanted.shape}, it gives {part.shape}"
        )
    size = 1
    for extent in part.shape:
        size *= extent
    return size


def race(entries: Sequence[EntryProcess], ours: Worker, machine: Machine, effort: Effort) -> Finish:
    """Time all of them, interleaved with each other and with the reference kernel.

    Sample i of one and sample i of another were taken in the same round. Whose process fails over it is out, and the
    others stay.
    """
    effort = chosen_care().limit(effort)
    reference = EntryProcess(REFERENCE, ours, lambda home: home.call(enter_reference, machine))
    finish, batches = Finish(), {}
    for each in (*entries, reference):
        found = each.calibrate(effort.sample_seconds)
        if isinstance(found, Verification):
            finish.fallen[each.name] = found
        else:
            batches[each.name] = found
    times = run_rounds([each for each in (*entries, reference) if each.name in batches], batches, finish, effort)
    if REFERENCE in finish.fallen:  # without it no time means anything
        lost = finish.fallen.pop(REFERENCE)
        return Finish({}, {each.name: finish.fallen.get(each.name, lost) for each in entries})
    beside = tuple(times[REFERENCE])
    for each in entries:
        if each.name not in finish.fallen:
            finish.samples[each.name] = Samples(tuple(times[each.name]), beside, batches[each.name].calls)
    return finish


def run_rounds(
    entries: Sequence[EntryProcess], batches: dict[str, Batch], finish: Finish, effort: Effort
) -> dict[str, list[float]]:
    """Samples of all entries by rounds; one that fails is noted in `finish`."""
    order = list(entries)
    shuffle = random.Random(0).shuffle
    times: dict[str, list[float]] = {each.name: [] for each in entries}
    start, rounds = time.perf_counter(), 0
    while REFERENCE not in finish.fallen and not is_spent(effort, rounds, start):
        shuffle(order)
        for each in order:
            if each.name in finish.fallen:
                continue
            found = each.sample(batches[each.name])
            if isinstance(found, Verification):
                finish.fallen[each.name] = found
            else:
                times[each.name].append(found)
        rounds += 1
    return times
