"""Elementwise operations composed of others: sign, shifts, hypot, tests for NaN and infinity."""

import math

from autotune.core.errors import TensorTypeError
from autotune.tensor.dtypes import bool, is_float, is_integer, promote
from autotune.tensor.elementwise import where
from autotune.tensor.graph import operation
from autotune.tensor.tensor import Tensor, as_tensor, operands, operate


def numbers(name: str, x: object) -> Tensor:
    """Convert an operand to a tensor of numbers.

    Raises:
        TensorTypeError: The operand is boolean, or no tensor.
    """
    operand = as_tensor(name, x)
    if operand.dtype == bool:
        raise TensorTypeError(f"operands of {name} must be numbers, they are bool; use astype")
    return operand


@operation
def abs(x: object, /) -> Tensor:
    """Absolute value of every element."""
    values = numbers("abs", x)
    return operate("absolute", values) if is_float(values.dtype) else operate("maximum", values, -values)


@operation
def positive(x: object, /) -> Tensor:
    """The tensor itself."""
    return numbers("positive", x)


@operation
def square(x: object, /) -> Tensor:
    """Square of every element."""
    values = numbers("square", x)
    return values * values


@operation
def reciprocal(x: object, /) -> Tensor:
    """Reciprocal of every element."""
    return 1.0 / as_tensor("reciprocal", x)


@operation
def asinh(x: object, /) -> Tensor:
    """Inverse hyperbolic sine of every element."""
    magnitude = operate("absolute", x)
    over = 1.0 / magnitude  # squaring a large element would overflow
    return sign(x) * log1p(magnitude + magnitude / (over + operate("sqrt", 1.0 + over * over)))


@operation
def acosh(x: object, /) -> Tensor:
    """Inverse hyperbolic cosine of every element."""
    above = as_tensor("acosh", x) - 1.0
    return log1p(above + operate("sqrt", above) * operate("sqrt", above + 2.0))


@operation
def atanh(x: object, /) -> Tensor:
    """Inverse hyperbolic tangent of every element."""
    magnitude = operate("absolute", x)
    return sign(x) * (0.5 * log1p(2.0 * magnitude / (1.0 - magnitude)))


@operation
def sign(x: object, /) -> Tensor:
    """-1, 0 or 1 for a negative, zero or positive element; NaN stays NaN."""
    values = numbers("sign", x)
    return where(values > 0, 1, where(values < 0, -1, values))


@operation
def clip(x: object, /, min: object = None, max: object = None) -> Tensor:
    """Clamp every element to the range from `min` to `max`."""
    values = numbers("clip", x)
    values = values if min is None else operate("maximum", values, min)
    return values if max is None else operate("minimum", values, max)


@operation
def log1p(x: object, /) -> Tensor:
    """``log(1 + x)``, accurate for small elements too (Goldberg, 1991, theorem 4)."""
    values = as_tensor("log1p", x)
    one_plus_x = 1.0 + values
    is_plain = (one_plus_x == 1.0) | (one_plus_x == math.inf)
    return where(is_plain, values, operate("log", one_plus_x) * (values / where(is_plain, 1.0, one_plus_x - 1.0)))


@operation
def expm1(x: object, /) -> Tensor:
    """``exp(x) - 1``, accurate for small elements too (Kahan)."""
    values = as_tensor("expm1", x)
    exponential = operate("exp", values)
    difference = exponential - 1.0
    is_plain = (exponential == math.inf) | (difference == -1.0)
    corrected = difference * (values / where(is_plain | (exponential == 1.0), 1.0, operate("log", exponential)))
    return where(exponential == 1.0, values, where(is_plain, difference, corrected))


@operation
def signbit(x: object, /) -> Tensor:
    """Whether the sign bit of each element is set; it is for -0.0."""
    values = as_tensor("signbit", x)
    return operate("copysign", operate("ones_like", values), values) < 0


@operation
def hypot(x1: object, x2: object, /) -> Tensor:
    """``sqrt(x1 ** 2 + x2 ** 2)`` without overflow; infinite if either operand is, even if the other one is NaN."""
    a, b = (operate("absolute", x) for x in operands("hypot", x1, x2))
    longer, shorter = operate("maximum", a, b), operate("minimum", a, b)
    ratio = shorter / where(longer == 0, 1.0, longer)  # squaring a large element would overflow
    return where((a == math.inf) | (b == math.inf), math.inf, longer * operate("sqrt", 1.0 + ratio * ratio))


@operation
def logaddexp(x1: object, x2: object, /) -> Tensor:
    """``log(exp(x1) + exp(x2))`` without overflow of the exponentials."""
    a, b = operands("logaddexp", x1, x2)
    distance = operate("absolute", a - b)
    return where(a == b, a + math.log(2), operate("maximum", a, b) + log1p(operate("exp", -distance)))


@operation
def bitwise_left_shift(x1: object, x2: object, /) -> Tensor:
    """Shift the bits of ``x1`` left by ``x2``; 0 if ``x2`` is the bit width or more."""
    values, amount, most = shifted("bitwise_left_shift", x1, x2)
    return where(amount > most, 0, operate("shift_left", values, clip(amount, 0, most)))


@operation
def bitwise_right_shift(x1: object, x2: object, /) -> Tensor:
    """Shift the bits of ``x1`` right by ``x2``, extending the sign."""
    values, amount, most = shifted("bitwise_right_shift", x1, x2)
    return operate("shift_right", values, clip(amount, 0, most))


def shifted(name: str, x1: object, x2: object) -> tuple[Tensor, Tensor, int]:
    """Return the operands of a shift in their common element type, and the largest valid shift amount.

    Raises:
        TensorTypeError: Operands are not integers.
    """
    tensors = operands(name, x1, x2)
    dtype = promote(name, *(x.dtype for x in tensors))
    if not is_integer(dtype):
        raise TensorTypeError(f"operands of {name} must be whole numbers, they are {dtype.name}; use astype")
    value, amount = (operate("astype", x, dtype) for x in tensors)
    return value, amount, 8 * dtype.itemsize - 1


@operation
def logical_not(x: object, /) -> Tensor:
    """Logical negation of every element."""
    values = as_tensor("logical_not", x)
    if values.dtype != bool:
        raise TensorTypeError(f"operands of logical_not must be bool, they are {values.dtype.name}; compare them")
    return values ^ True


@operation
def bitwise_invert(x: object, /) -> Tensor:
    """Complement of every bit."""
    values = as_tensor("bitwise_invert", x)
    return values ^ (True if values.dtype == bool else -1)


@operation
def isnan(x: object, /) -> Tensor:
    """Whether each element is NaN."""
    values = numbers("isnan", x)
    return values != values  # noqa: PLR0124


@operation
def isinf(x: object, /) -> Tensor:
    """Whether each element is infinite."""
    values = numbers("isinf", x)
    return abs(values) == math.inf if is_float(values.dtype) else values != values  # noqa: PLR0124


@operation
def isfinite(x: object, /) -> Tensor:
    """Whether each element is neither infinite nor NaN."""
    values = numbers("isfinite", x)
    return abs(values) < math.inf if is_float(values.dtype) else values == values  # noqa: PLR0124


def rounding(name: str) -> None:
    """Define an operation that rounds real elements and returns integers unchanged."""

    def apply(x: object, /) -> Tensor:
        values = numbers(name, x)
        return operate(f"{name}_real", values) if is_float(values.dtype) else values

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of every element; round goes to the even one of two as near."
    operation(apply)


for each in ("floor", "ceil", "trunc", "round"):
    rounding(each)
