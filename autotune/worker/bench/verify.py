"""Verification: compare a candidate's outputs with the oracle's, within the tolerance of the dtype."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.payload import Argument, Array, Payload
from autotune.core.stats import tolerance

MOVES = 4.0  # correct programs of attention differ by 1.0 to 1.9 times the effect of one unit in the last place
MOST_SUMS = 16.0  # bound: if rounding flips a comparison, outputs move arbitrarily, which must not excuse an error


@dataclass(frozen=True)
class Verdict:
    """Result of verification.

    Attributes:
        outcome: ``ok``, ``wrong-result`` or ``non-finite``.
        max_error: Largest absolute difference to the oracle; infinite where an element is not finite.
        diagnostic: The worst element, its value, the expected value, and the tolerance; empty if the outcome is ``ok``.
        seconds: Time of the verified call; with several cases, their times weighted and summed; 0 if unknown.
    """

    outcome: Literal["ok", "wrong-result", "non-finite"]
    max_error: float
    diagnostic: str = ""
    seconds: float = 0.0


def poison(array: Array) -> None:
    """Fill an output with a value that no correct program leaves: NaN, or the smallest integer."""
    array.fill(np.iinfo(array.dtype).min if array.dtype.kind == "i" else np.nan)


def verify(
    payload: Payload,
    got: Sequence[Array],
    expected: Sequence[Array],
    arguments: Sequence[Argument] | None = None,
    moved: Sequence[float] = (),
) -> Verdict:
    """Compare written arrays with the oracle's, element by element.

    The tolerance grows with the machine epsilon, the length of the longest sum, the oracle's largest value, and the
    payload's error budget.

    Args:
        payload: Payload with the length of the longest sum and the error budget.
        got: Arrays that the candidate wrote, in the order of `arguments`.
        expected: Arrays of the oracle, of the same shapes; usually float64.
        arguments: Arguments to compare; by default all that the payload writes, states included.
        moved: Effect of rounding on each array; if empty, only the bound for sums is allowed.

    Raises:
        PayloadError: The number of arrays differs from the number of arguments.
    """
    compared, worst = arguments or payload.written, 0.0
    if not len(got) == len(expected) == len(compared):
        names = ", ".join(argument.name for argument in compared)
        raise PayloadError(f"there must be an array each of {names}, in a list; got {len(got)} and {len(expected)}")
    for argument, mine, theirs, far in zip(compared, got, expected, moved or [0.0] * len(compared), strict=True):
        verdict = verify_output(argument, mine, theirs, payload, far)
        if verdict.outcome != "ok":
            return verdict
        worst = max(worst, verdict.max_error)
    return Verdict("ok", worst)


def allowed_error(payload: Payload, dtype: str, magnitude: float, moved: float = 0.0) -> float:
    """Return the allowed absolute error of an output's elements: the effect of rounding plus the payload's budget.

    Args:
        payload: Payload with the length of the longest sum and the error budget, which integers do not use.
        dtype: Element type of the output.
        magnitude: Largest absolute value of the oracle's array.
        moved: Effect of rounding on the plain program's array.
    """
    budget = 0.0 if dtype.startswith("i") else payload.error
    of_sums = tolerance(dtype, payload.reduction, magnitude)
    return max(of_sums, min(MOVES * moved, MOST_SUMS * of_sums)) + budget * magnitude


def verify_output(argument: Argument, got: Array, expected: Array, payload: Payload, moved: float = 0.0) -> Verdict:
    """Compare one output."""
    expected = np.asarray(expected)
    if got.shape != expected.shape:
        return Verdict("wrong-result", np.inf, f"{argument.name} must have shape {expected.shape}, has {got.shape}")
    error = np.abs(got.astype(np.float64) - expected)
    non_finite = ~np.isfinite(error)
    if non_finite.any():
        where = tuple(int(i) for i in np.argwhere(non_finite)[0])
        return Verdict(
            "non-finite", np.inf, f"{argument.name}{list(where)} is {got[where]}, should be {expected[where]}"
        )
    allowed = allowed_error(payload, argument.dtype, float(np.max(np.abs(expected), initial=0.0)), moved)
    worst = float(np.max(error, initial=0.0))
    if worst > allowed:
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
        wrong = int(np.count_nonzero(error > allowed))
        return Verdict(
            "wrong-result",
            worst,
            f"{argument.name}{list(where)} is {got[where]:.9g}, should be {expected[where]:.9g}; "
            f"{wrong} of {error.size} elements are off by more than {allowed:.3g}",
        )
    return Verdict("ok", worst)
