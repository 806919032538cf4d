"""Value ranges of a function's operations on given inputs, and the output error when one value is rounded."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from autotune.contrib.analysis.bodies import UnknownOpError
from autotune.contrib.analysis.evaluate import Evaluation64, See
from autotune.core.ops.facts import ValueFacts
from autotune.core.payload import Argument, Array
from autotune.core.printable import first_lines

FAILURES = (UnknownOpError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError)  # raised by an evaluation
NARROW = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


@dataclass
class Range:
    """Range of the values of an operation, and their smallest nonzero magnitude, so far."""

    low: float = inf
    high: float = -inf
    least: float = inf

    def see(self, array: Array) -> None:
        """Extend the range by the values of an array; booleans count as 0 and 1."""
        numbers = array.astype(np.float64) if array.dtype.kind == "b" else array
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
        magnitudes = np.abs(numbers)
        nonzero = magnitudes[magnitudes > 0]
        self.least = min(self.least, float(nonzero.min())) if nonzero.size else self.least


@dataclass(frozen=True)
class BoundFunction:
    """Function with descriptions and arrays of its arguments, in order."""

    function: ir.OpView
    arguments: Sequence[Argument]
    arrays: Sequence[Array]

    def evaluate(self, see: See) -> dict[str, Array]:
        """Evaluate the function and return its outputs by argument name; `see` is as for `Evaluation64`."""
        return Evaluation64(self.function, self.arguments, self.arrays, see).results


def read_values(bound: BoundFunction, ops: Sequence[ir.Operation], seconds: float) -> tuple[list[ValueFacts], str]:
    """Return the range of every operation's values, and the output error when that value alone is rounded.

    The errors take one evaluation per value and type; they are computed until the time budget is spent.

    Args:
        bound: Entry function with its inputs.
        ops: Structured operations of the function, by number.
        seconds: Time budget for rounding.

    Returns:
        Facts of the values, and the reason why some are missing; empty if none is.
    """
    seen = {op: Range() for op in ops}

    def see(op: ir.Operation, array: Array) -> Array:
        if op in seen and array.size:
            seen[op].see(array)
        return array

    start = time.monotonic()
    try:
        base = bound.evaluate(see)
    except FAILURES as error:
        return facts_of(seen), f"the evaluation ends at {first_lines(str(error))}"
    duration, facts = time.monotonic() - start, facts_of(seen)
    left = seconds
    for number, value in enumerate(facts):
        if left < duration * len(NARROW):
            return facts, f"an evaluation takes {duration:.2g} s: {len(facts) - number} values were not rounded"
        errors = []
        for name, dtype in NARROW.items():
            errors.append((name, rounding_error(bound, ops[value.op], dtype, base)))
        left -= duration * len(NARROW)
        facts[number] = replace(value, errors=tuple(errors))
    return facts, ""


def facts_of(seen: dict[ir.Operation, Range]) -> list[ValueFacts]:
    """Return the facts of the values by operation number, without operations that gave no values."""
    known = [(number, each) for number, each in enumerate(seen.values()) if each.low <= each.high]
    return [ValueFacts(n, each.low, each.high, 0.0 if each.least == inf else each.least) for n, each in known]


def rounding_error(
    bound: BoundFunction, rounded: ir.Operation, dtype: "np.dtype[Any]", base: dict[str, Array]
) -> float:
    """Return the largest output error when one result is rounded, relative to the output's maximum magnitude."""

    def see(op: ir.Operation, array: Array) -> Array:
        if op != rounded or array.dtype.kind != "f":
            return array
        with np.errstate(all="ignore"):
            return array.astype(dtype).astype(np.float64)

    worst = 0.0
    with np.errstate(all="ignore"):
        outputs = bound.evaluate(see)
        for name, array in outputs.items():
            change = np.abs(array - base[name])
            largest = float(np.max(np.abs(base[name]), initial=0.0))
            share = float(np.max(change, initial=0.0)) / largest if largest else 0.0
            worst = max(worst, share if np.isfinite(change).all() else inf)
    return worst
