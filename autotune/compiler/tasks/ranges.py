"""Ranges of random data of arguments: declared by attributes, or the size of the dimension that an argument indexes."""

from collections.abc import Iterator
from math import isfinite

import numpy as np
from mlir import ir

from autotune.compiler.ir.arguments import HIGH, LOW, number_attribute
from autotune.compiler.ir.nests import element_type
from autotune.core.errors import PayloadError
from autotune.core.payload import DTYPES

ANY_INTEGER = (-8.0, 8.0)  # default range
ANY_REAL = (-1.0, 1.0)
FOLLOWED = ("arith.", "tensor.", "bufferization.to_tensor", "linalg.")


def range_of(function: ir.OpView, number: int, value: ir.Value) -> tuple[float, float]:
    """Return the lower bound (inclusive) and upper bound (exclusive) of the random data of an argument.

    They are declared by the attributes ``autotune.low`` and ``autotune.high``. By default, integers that are used as
    indices of a tensor are valid indices.

    Raises:
        PayloadError: The declared bounds are not a valid range.
    """
    dtype = element_type(value)
    is_real = not dtype.startswith("i")
    bound = None if is_real else smallest_tensor(value)
    low, high = ANY_REAL if is_real else ANY_INTEGER if bound is None else (0.0, float(bound))
    declared_low, declared_high = (number_attribute(function, number, name) for name in (LOW, HIGH))
    low, high = low if declared_low is None else declared_low, high if declared_high is None else declared_high
    if not low < high:
        raise PayloadError(f"{LOW} of argument {number} must be below {HIGH}, got {low:g} and {high:g}; give both")
    if (declared_low, declared_high) != (None, None) and not can_be_drawn(dtype, low, high):
        raise PayloadError(
            f"{LOW} and {HIGH} of argument {number} must be a range of {dtype}, got {low:g} and {high:g}; change one"
        )
    return low, high


def can_be_drawn(dtype: str, low: float, high: float) -> bool:
    """Return whether random numbers of a type can be drawn from a range.

    >>> can_be_drawn("i8", -128, 128), can_be_drawn("i8", 0, 129), can_be_drawn("i8", 0.2, 0.8)
    (True, False, False)
    """
    if not dtype.startswith("i"):
        return isfinite(high - low)
    limits = np.iinfo(DTYPES[dtype])
    return int(limits.min) <= int(low) < int(high) <= int(limits.max) + 1


def smallest_tensor(value: ir.Value) -> int | None:
    """Return the smallest size of the dimensions that are indexed by a value; `None` if it is not used as an index."""
    return min(sizes_read_at(value), default=None)


def sizes_read_at(value: ir.Value) -> Iterator[int]:
    """Yield the static size of the dimension of every `tensor.extract` with an index computed from a value."""
    seen, worklist = {value}, [value]
    while worklist:
        for use in worklist.pop().uses:
            op, number = use.owner.operation, use.operand_number
            if op.name == "tensor.extract" and number > 0:
                tensor_type = ir.RankedTensorType(op.operands[0].type)
                if not tensor_type.is_dynamic_dim(number - 1):
                    yield tensor_type.get_dim_size(number - 1)
                continue
            new_values = [v for v in onward(op, number) if v not in seen and holds_integers(v)]
            seen.update(new_values)
            worklist += new_values


def onward(op: ir.Operation, number: int) -> Iterator[ir.Value]:
    """Yield the values that an operation computes from an operand."""
    if op.name == "linalg.yield":
        yield from op.parent.operation.results
    elif op.name.startswith("linalg.") and op.regions and number < len(op.regions[0].blocks[0].arguments):
        yield op.regions[0].blocks[0].arguments[number]
    elif op.name.startswith(FOLLOWED):
        yield from op.results


def holds_integers(value: ir.Value) -> bool:
    """Return whether a value is or holds integers or indices; booleans do not count."""
    dtype = element_type(value)
    return dtype == "index" or (dtype.startswith("i") and dtype != "i1")
