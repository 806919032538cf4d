"""Which integers an argument may hold: what the function says, or how many elements there are where it is an index."""

from collections.abc import Iterator
from math import isfinite

import numpy as np
from mlir import ir

from autotune.compiler.ir.arguments import HIGH, LOW, number_attribute
from autotune.compiler.ir.nests import element_type
from autotune.core.errors import PayloadError
from autotune.core.payload import DTYPES

ANY_INTEGER = (-8.0, 8.0)  # where nothing is known
ANY_REAL = (-1.0, 1.0)
FOLLOWED = ("arith.", "tensor.", "bufferization.to_tensor", "linalg.")


def range_of(function: ir.OpView, number: int, value: ir.Value) -> tuple[float, float]:
    """Smallest value of an argument's random data, and its upper end (exclusive).

    Attributes ``autotune.low`` and ``autotune.high`` say so. Else integers that are used as indices of a tensor's
    elements are such indices.

    Raises:
        PayloadError: What the function says is no range.
    """
    kind = element_type(value)
    real = not kind.startswith("i")
    bound = None if real else smallest_tensor(value)
    low, high = ANY_REAL if real else ANY_INTEGER if bound is None else (0.0, float(bound))
    declared_low, declared_high = (number_attribute(function, number, name) for name in (LOW, HIGH))
    low, high = low if declared_low is None else declared_low, high if declared_high is None else declared_high
    if not low < high:
        raise PayloadError(f"{LOW} of argument {number} must be below {HIGH}, got {low:g} and {high:g}; give both")
    if (declared_low, declared_high) != (None, None) and not can_be_drawn(kind, low, high):
        raise PayloadError(
            f"{LOW} and {HIGH} of argument {number} must be a range of {kind}, got {low:g} and {high:g}; change one"
        )
    return low, high


def can_be_drawn(kind: str, low: float, high: float) -> bool:
    """Tell whether random numbers of a type can be drawn from a range.

    >>> can_be_drawn("i8", -128, 128), can_be_drawn("i8", 0, 129), can_be_drawn("i8", 0.2, 0.8)
    (True, False, False)
    """
    if not kind.startswith("i"):
        return isfinite(high - low)
    of = np.iinfo(DTYPES[kind])
    return int(of.min) <= int(low) < int(high) <= int(of.max) + 1


def smallest_tensor(value: ir.Value) -> int | None:
    """The least number of elements in a dimension that is read at indices computed from a value; `None` if none is."""
    return min(sizes_read_at(value), default=None)


def sizes_read_at(value: ir.Value) -> Iterator[int]:
    """For every element that is read at an index computed from a value: how many there are in that dimension."""
    seen, waiting = {value}, [value]
    while waiting:
        for use in waiting.pop().uses:
            op, number = use.owner.operation, use.operand_number
            if op.name == "tensor.extract" and number > 0:
                kind = ir.RankedTensorType(op.operands[0].type)
                if not kind.is_dynamic_dim(number - 1):
                    yield kind.get_dim_size(number - 1)
                continue
            found = [v for v in onward(op, number) if v not in seen and holds_integers(v)]
            seen.update(found)
            waiting += found


def onward(op: ir.Operation, number: int) -> Iterator[ir.Value]:
    """What is computed of an operand."""
    if op.name == "linalg.yield":
        yield from op.parent.operation.results
    elif op.name.startswith("linalg.") and op.regions and number < len(op.regions[0].blocks[0].arguments):
        yield op.regions[0].blocks[0].arguments[number]
    elif op.name.startswith(FOLLOWED):
        yield from op.results


def holds_integers(value: ir.Value) -> bool:
    """Tell whether a value is an integer, an index, or holds such; booleans are no numbers."""
    kind = element_type(value)
    return kind == "index" or (kind.startswith("i") and kind != "i1")
