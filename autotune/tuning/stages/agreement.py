"""What rounding may do to the outputs of a whole, and what it does: errors, and rows whose largest element stays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autotune.core.bench import Bench
from autotune.core.candidate import Claim
from autotune.core.errors import CompileError, PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.tuning.stages.assemble import whole_candidate
from autotune.tuning.stages.choose import Choice
from autotune.worker.bench.proof import DrawsWanted, count_rows, has_rows, largest_error

A = TypeVar("A")
T = TypeVar("T")

ANY = 1e30  # a budget that keeps nothing back, to measure what an error is
LEAST_ROWS, MOST_SEEDS = 1000, 16  # of outputs, and sets of inputs, on which agreement is counted
# Elements of outputs, and sets of inputs, on which an error is measured: the largest of few varies much.
LEAST_ELEMENTS, MOST_DRAWS = 1000, 64
LOOSE = 0.1  # error that outputs may have where agreement alone is asked for, while nothing is known of it


@dataclass(frozen=True)
class Errors:
    """Errors of a whole whose tasks are compiled in different ways, relative to the largest value of each output.

    Attributes:
        payload: The whole.
        parts: Partition of the whole.
        threads: Threads that programs use.
        worker: Bench to evaluate in.
        seconds: Seconds that one may take.
    """

    payload: Payload
    parts: Partition
    threads: int
    worker: Bench
    seconds: float

    def of(self, choices: Sequence[Choice], seed: int) -> float:
        """The error with these choices; infinite where the whole does not run."""
        return self.largest(self.claim(choices, seed))

    def own(self, choice: Choice, seed: int) -> float:
        """The error of a task with a choice, alone, on inputs of its own; infinite where it does not run."""
        search = choice.search
        return self.largest(Claim(replace(search.task.payload, error=ANY), search.candidate(choice.config or {}), seed))

    def largest(self, claim: Claim) -> float:
        """The largest error of a program's outputs, each relative to its largest value; infinite if it does not run."""
        error = self.answer(largest_error, DrawsWanted(claim, LEAST_ELEMENTS, MOST_DRAWS))
        return float("inf") if error is None else error

    def agreement(self, choices: Sequence[Choice], seed: int) -> tuple[float, int]:
        """Share of rows whose largest element is where it should be, on inputs from this seed on, and their number."""
        wanted = DrawsWanted(self.claim(choices, seed), LEAST_ROWS, MOST_SEEDS)
        found = self.answer(count_rows, wanted)
        if found is None:
            return 0.0, 0
        rows, same = found
        return same / max(rows, 1), rows

    def claim(self, choices: Sequence[Choice], seed: int) -> Claim:
        """The whole with these choices, with room for any error."""
        scheduled = [choice for choice in choices if choice.config is not None]
        candidate = whole_candidate(scheduled, self.threads, self.parts.payload.text)
        return Claim(replace(self.payload, error=ANY), candidate, seed)

    def answer(self, asked: Callable[[A], T], argument: A) -> T | None:
        """What the worker says of a whole; `None` where that does not run."""
        try:
            found = self.worker.call(asked, argument, self.seconds)
        except CompileError:
            return None
        return None if isinstance(found, Evaluation) else found


@dataclass(frozen=True)
class Allowed:
    """What rounding may do to the outputs of a whole.

    Attributes:
        error: What they may be off, relative to the largest of each; 0 where agreement alone bounds it.
        agreement: Least share of rows whose largest element must stay where it is; 0 for any.
    """

    error: float = 0.0
    agreement: float = 0.0

    @property
    def room(self) -> float:
        """The error that is allowed while nothing is measured; 0 where nothing may be rounded."""
        return self.error or (LOOSE if self.agreement else 0.0)

    def check(self, payload: Payload) -> None:
        """Raise where agreement is asked for that no output can show.

        Raises:
            PayloadError: No output has rows.
        """
        if self.agreement and not any(map(has_rows, payload.arguments)):
            raise PayloadError(
                f"agreement must be of rows of floating-point numbers, {payload.name} writes none; give --error instead"
            )


def limits_of(allowed: Allowed) -> str:
    """What is allowed, in words."""
    error = f"errors below {allowed.error:g}" if allowed.error else ""
    agreement = f"{100 * allowed.agreement:g} % of rows in agreement" if allowed.agreement else ""
    return " and ".join(filter(None, (error, agreement)))
