"""The values of a function's ops on given inputs, and what precision each needs: by evaluating it, and rounding one."""

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

FAILURES = (UnknownOpError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError)  # of what others wrote
NARROW = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


@dataclass
class Range:
    """What was seen of an op's values so far."""

    low: float = inf
    high: float = -inf
    least: float = inf

    def see(self, array: Array) -> None:
        """Take more values in; booleans count as 0 and 1."""
        numbers = array.astype(np.float64) if array.dtype.kind == "b" else array
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
        magnitudes = np.abs(numbers)
        some = magnitudes[magnitudes > 0]
        self.least = min(self.least, float(some.min())) if some.size else self.least


@dataclass(frozen=True)
class BoundFunction:
    """A function, what its arguments are, and arrays for them, in order."""

    function: ir.OpView
    arguments: Sequence[Argument]
    arrays: Sequence[Array]

    def evaluate(self, see: See) -> dict[str, Array]:
        """What the function writes, by name of the argument; `see` is as for `Evaluation64`."""
        return Evaluation64(self.function, self.arguments, self.arrays, see).results


def read_values(bound: BoundFunction, ops: Sequence[ir.Operation], seconds: float) -> tuple[list[ValueFacts], str]:
    """Ranges of every op's values; then, in the time there is, the error of the outputs where one value is rounded.

    Args:
        bound: Entry function with its inputs.
        ops: Structured ops of it, in the order of their numbers.
        seconds: How long values are rounded for, one after the other.

    Returns:
        What was seen, and why something is missing; empty where nothing is.
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
    each, found = time.monotonic() - start, facts_of(seen)
    left = seconds
    for number, value in enumerate(found):
        if left < each * len(NARROW):
            return found, f"an evaluation takes {each:.2g} s: {len(found) - number} values were not rounded"
        errors = []
        for name, dtype in NARROW.items():
            errors.append((name, rounding_error(bound, ops[value.op], dtype, base)))
        left -= each * len(NARROW)
        found[number] = replace(value, errors=tuple(errors))
    return found, ""


def facts_of(seen: dict[ir.Operation, Range]) -> list[ValueFacts]:
    """What was seen of the values of ops, in the order of their numbers; nothing of those that gave none."""
    known = [(number, each) for number, each in enumerate(seen.values()) if each.low <= each.high]
    return [ValueFacts(n, each.low, each.high, 0.0 if each.least == inf else each.least) for n, each in known]


def rounding_error(
    bound: BoundFunction, rounded: ir.Operation, dtype: "np.dtype[Any]", base: dict[str, Array]
) -> float:
    """Largest change of an output where one op's values are rounded, as a share of the output's largest magnitude."""

    def see(op: ir.Operation, array: Array) -> Array:
        if op != rounded or array.dtype.kind != "f":
            return array
        with np.errstate(all="ignore"):
            return array.astype(dtype).astype(np.float64)

    worst = 0.0
    with np.errstate(all="ignore"):
        found = bound.evaluate(see)
        for name, array in found.items():
            change = np.abs(array - base[name])
            largest = float(np.max(np.abs(base[name]), initial=0.0))
            share = float(np.max(change, initial=0.0)) / largest if largest else 0.0
            worst = max(worst, share if np.isfinite(change).all() else inf)
    return worst
