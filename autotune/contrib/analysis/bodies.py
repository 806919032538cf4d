"""NumPy implementations of MLIR's scalar operations, applied to whole arrays in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from autotune.core.payload import Array


def erf(values: Array) -> Array:
    """Compute the error function; SciPy is imported here, because that takes half a second and few programs need it."""
    from scipy.special import erf as of_scipy

    result: Array = of_scipy(values)
    return result


COMPARE: dict[str, tuple[Callable[..., Any], ...]] = {
    # indexed by the predicate's number
    "arith.cmpi": (
        np.equal,
        np.not_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
    ),
    "arith.cmpf": (
        lambda a, b: np.zeros(np.broadcast(a, b).shape, bool),
        np.equal,
        np.greater,
        np.greater_equal,
        np.less,
        np.less_equal,
        lambda a, b: (a < b) | (a > b),
        lambda a, b: ~(np.isnan(a) | np.isnan(b)),
        lambda a, b: ~((a < b) | (a > b)),
        lambda a, b: ~(a <= b),
        lambda a, b: ~(a < b),
        lambda a, b: ~(a >= b),
        lambda a, b: ~(a > b),
        np.not_equal,
        lambda a, b: np.isnan(a) | np.isnan(b),
        lambda a, b: np.ones(np.broadcast(a, b).shape, bool),
    ),
}
SAME = ("arith.extf", "arith.truncf", "arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci")
SCALAR: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.floordivsi": np.floor_divide,
    "arith.sitofp": lambda a: np.asarray(a, np.float64),
    "arith.uitofp": lambda a: np.asarray(a, np.float64),
    "arith.fptosi": lambda a: np.trunc(a).astype(np.int64),
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1.0 / np.sqrt(a),
    "math.tanh": np.tanh,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.erf": erf,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.powf": np.power,
    "math.fpowi": np.power,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.round": np.round,
    "math.roundeven": np.rint,
    "math.fma": lambda a, b, c: a * b + c,
    **dict.fromkeys(SAME, lambda a: a),
}
SUMS: dict[str, Any] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.mulf": np.multiply,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}


class UnknownOpError(Exception):
    """Operation that has no implementation here; the message is its name."""


def constant_of(op: ir.Operation) -> Array:
    """Return the value of an `arith.constant`.

    Raises:
        UnknownOpError: The attribute cannot be converted to an array of numbers.
    """
    value = op.attributes["value"]
    if isinstance(value, ir.FloatAttr):
        return np.float64(value.value)  # type: ignore[return-value]
    if isinstance(value, ir.BoolAttr):
        return np.bool_(value.value)  # type: ignore[return-value]
    if isinstance(value, ir.IntegerAttr):
        return np.int64(value.value)  # type: ignore[return-value]
    tensor_type = ir.RankedTensorType(op.results[0].type)
    floating = isinstance(tensor_type.element_type, ir.FloatType)
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        element = value.get_splat_value()
        return np.full(tensor_type.shape, element.value, np.float64 if floating else np.int64)
    try:
        return widened(np.array(value))
    except (TypeError, ValueError, BufferError) as error:
        raise UnknownOpError(f"a constant {tensor_type}") from error


def widened(array: Array) -> Array:
    """Convert an array to the type of this evaluation: float64, int64 or bool."""
    if array.dtype.kind == "b":
        return array
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def compute(op: ir.Operation, operands: list[Any]) -> Any:  # noqa: ANN401 - a scalar, or an array of them
    """Apply a scalar operation elementwise to arrays of its operands.

    Raises:
        UnknownOpError: The operation has no implementation here.
    """
    if op.name in COMPARE:
        return COMPARE[op.name][ir.IntegerAttr(op.attributes["predicate"]).value](*operands)
    if op.name not in SCALAR:
        raise UnknownOpError(op.name)
    return SCALAR[op.name](*operands)
