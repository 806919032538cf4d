"""Limits and measurement of rounding errors of a whole: relative errors, and agreement of the rows' argmax."""

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

ANY = 1e30  # unlimited error budget, for measuring an error
LEAST_ROWS, MOST_SEEDS = 1000, 16  # rows of outputs, and sets of inputs, for measuring agreement
# Elements of outputs, and sets of inputs, for measuring an error: the maximum of few elements has a large variance.
LEAST_ELEMENTS, MOST_DRAWS = 1000, 64
LOOSE = 0.1  # preliminary error limit where only agreement is requested


@dataclass(frozen=True)
class Errors:
    """Measurement of the errors of a whole for different choices, relative to the largest value of each output.

    Attributes:
        payload: The whole.
        parts: Partition of the whole.
        threads: Number of threads of programs.
        worker: Bench to evaluate in.
        seconds: Time limit of an evaluation, in seconds.
    """

    payload: Payload
    parts: Partition
    threads: int
    worker: Bench
    seconds: float

    def of(self, choices: Sequence[Choice], seed: int) -> float:
        """Return the error of the whole with some choices; infinite where it does not run."""
        return self.largest(self.claim(choices, seed))

    def own(self, choice: Choice, seed: int) -> float:
        """Return the error of a single task with a choice, on its own inputs; infinite where it does not run."""
        search = choice.search
        return self.largest(Claim(replace(search.task.payload, error=ANY), search.candidate(choice.config or {}), seed))

    def largest(self, claim: Claim) -> float:
        """Return the largest relative error of a program's outputs; infinite where it does not run."""
        error = self.answer(largest_error, DrawsWanted(claim, LEAST_ELEMENTS, MOST_DRAWS))
        return float("inf") if error is None else error

    def agreement(self, choices: Sequence[Choice], seed: int) -> tuple[float, int]:
        """Return the share of rows with an unchanged argmax, on inputs from this seed on, and the number of rows."""
        request = DrawsWanted(self.claim(choices, seed), LEAST_ROWS, MOST_SEEDS)
        counts = self.answer(count_rows, request)
        if counts is None:
            return 0.0, 0
        rows, same = counts
        return same / max(rows, 1), rows

    def claim(self, choices: Sequence[Choice], seed: int) -> Claim:
        """Return the program of the whole with some choices, with an unlimited error budget."""
        scheduled = [choice for choice in choices if choice.config is not None]
        candidate = whole_candidate(scheduled, self.threads, self.parts.payload.text)
        return Claim(replace(self.payload, error=ANY), candidate, seed)

    def answer(self, function: Callable[[A], T], argument: A) -> T | None:
        """Call a function in the worker; return `None` where the program does not run."""
        try:
            answer = self.worker.call(function, argument, self.seconds)
        except CompileError:
            return None
        return None if isinstance(answer, Evaluation) else answer


@dataclass(frozen=True)
class Allowed:
    """Limits of the rounding errors of a whole's outputs.

    Attributes:
        error: Allowed error, relative to the largest value of each output; 0 where only agreement limits it.
        agreement: Least share of rows whose argmax must not change; 0 for no limit.
    """

    error: float = 0.0
    agreement: float = 0.0

    @property
    def room(self) -> float:
        """Error limit before agreement is measured; 0 where nothing may be rounded."""
        return self.error or (LOOSE if self.agreement else 0.0)

    def check(self, payload: Payload) -> None:
        """Raise if agreement is requested, and no output has rows.

        Raises:
            PayloadError: No output has rows.
        """
        if self.agreement and not any(map(has_rows, payload.arguments)):
            raise PayloadError(
                f"agreement must be of rows of floating-point numbers, {payload.name} writes none; give --error instead"
            )


def limits_of(allowed: Allowed) -> str:
    """Describe the limits in words."""
    error = f"errors below {allowed.error:g}" if allowed.error else ""
    agreement = f"{100 * allowed.agreement:g} % of rows in agreement" if allowed.agreement else ""
    return " and ".join(filter(None, (error, agreement)))
