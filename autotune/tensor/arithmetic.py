"""Operations that are made of others: signs, shifts, lengths, tests for what is not finite."""

import math

from autotune.core.errors import TensorTypeError
from autotune.tensor.dtypes import bool, is_float, is_integer, promote
from autotune.tensor.elementwise import where
from autotune.tensor.graph import operation
from autotune.tensor.tensor import Tensor, as_tensor, operands, operate


def numbers(what: str, x: object) -> Tensor:
    """An operand of numbers.

    Raises:
        TensorTypeError: The operand is boolean, or no tensor.
    """
    given = as_tensor(what, x)
    if given.dtype == bool:
        raise TensorTypeError(f"operands of {what} must be numbers, they are bool; use astype")
    return given


@operation
def abs(x: object, /) -> Tensor:
    """Every element without its sign."""
    given = numbers("abs", x)
    return operate("absolute", given) if is_float(given.dtype) else operate("maximum", given, -given)


@operation
def positive(x: object, /) -> Tensor:
    """The tensor itself."""
    return numbers("positive", x)


@operation
def square(x: object, /) -> Tensor:
    """Every element times itself."""
    given = numbers("square", x)
    return given * given


@operation
def reciprocal(x: object, /) -> Tensor:
    """One over every element."""
    return 1.0 / as_tensor("reciprocal", x)


@operation
def asinh(x: object, /) -> Tensor:
    """Inverse of sinh, of every element."""
    size = operate("absolute", x)
    over = 1.0 / size  # no square of a large number
    return sign(x) * log1p(size + size / (over + operate("sqrt", 1.0 + over * over)))


@operation
def acosh(x: object, /) -> Tensor:
    """Inverse of cosh, of every element."""
    above = as_tensor("acosh", x) - 1.0
    return log1p(above + operate("sqrt", above) * operate("sqrt", above + 2.0))


@operation
def atanh(x: object, /) -> Tensor:
    """Inverse of tanh, of every element."""
    size = operate("absolute", x)
    return sign(x) * (0.5 * log1p(2.0 * size / (1.0 - size)))


@operation
def sign(x: object, /) -> Tensor:
    """-1, 0 or 1, as an element is negative, zero or positive; NaN stays."""
    given = numbers("sign", x)
    return where(given > 0, 1, where(given < 0, -1, given))


@operation
def clip(x: object, /, min: object = None, max: object = None) -> Tensor:
    """Elements not below `min` and not above `max`."""
    given = numbers("clip", x)
    given = given if min is None else operate("maximum", given, min)
    return given if max is None else operate("minimum", given, max)


@operation
def log1p(x: object, /) -> Tensor:
    """Logarithm of an element and 1, to the last digits where the element is small (Goldberg, 1991, theorem 4)."""
    given = as_tensor("log1p", x)
    more = 1.0 + given
    is_plain = (more == 1.0) | (more == math.inf)
    return where(is_plain, given, operate("log", more) * (given / where(is_plain, 1.0, more - 1.0)))


@operation
def expm1(x: object, /) -> Tensor:
    """Exponential of an element, less 1, to the last digits where the element is small (Kahan)."""
    given = as_tensor("expm1", x)
    power = operate("exp", given)
    below = power - 1.0
    is_plain = (power == math.inf) | (below == -1.0)
    bent = below * (given / where(is_plain | (power == 1.0), 1.0, operate("log", power)))
    return where(power == 1.0, given, where(is_plain, below, bent))


@operation
def signbit(x: object, /) -> Tensor:
    """Where the sign of a real number is minus, that of -0.0 too."""
    given = as_tensor("signbit", x)
    return operate("copysign", operate("ones_like", given), given) < 0


@operation
def hypot(x1: object, x2: object, /) -> Tensor:
    """Length of a vector ``(x1, x2)``; infinite if one of them is, even beside NaN."""
    a, b = (operate("absolute", x) for x in operands("hypot", x1, x2))
    longer, shorter = operate("maximum", a, b), operate("minimum", a, b)
    share = shorter / where(longer == 0, 1.0, longer)  # no square of a large number
    return where((a == math.inf) | (b == math.inf), math.inf, longer * operate("sqrt", 1.0 + share * share))


@operation
def logaddexp(x1: object, x2: object, /) -> Tensor:
    """``log(exp(x1) + exp(x2))``, of numbers whose exp would be infinite too."""
    a, b = operands("logaddexp", x1, x2)
    apart = operate("absolute", a - b)
    return where(a == b, a + math.log(2), operate("maximum", a, b) + log1p(operate("exp", -apart)))


@operation
def bitwise_left_shift(x1: object, x2: object, /) -> Tensor:
    """Bits further up by so many positions; 0 by as many as an element has, or more."""
    given, amount, most = shifted("bitwise_left_shift", x1, x2)
    return where(amount > most, 0, operate("shift_left", given, clip(amount, 0, most)))


@operation
def bitwise_right_shift(x1: object, x2: object, /) -> Tensor:
    """Bits further down by so many positions, the sign repeated."""
    given, amount, most = shifted("bitwise_right_shift", x1, x2)
    return operate("shift_right", given, clip(amount, 0, most))


def shifted(what: str, x1: object, x2: object) -> tuple[Tensor, Tensor, int]:
    """Operands of a shift in their common element type, and the largest amount of the shift.

    Raises:
        TensorTypeError: Operands are not whole.
    """
    given = operands(what, x1, x2)
    dtype = promote(what, *(x.dtype for x in given))
    if not is_integer(dtype):
        raise TensorTypeError(f"operands of {what} must be whole numbers, they are {dtype.name}; use astype")
    value, amount = (operate("astype", x, dtype) for x in given)
    return value, amount, 8 * dtype.itemsize - 1


@operation
def logical_not(x: object, /) -> Tensor:
    """Where a boolean does not hold."""
    given = as_tensor("logical_not", x)
    if given.dtype != bool:
        raise TensorTypeError(f"operands of logical_not must be bool, they are {given.dtype.name}; compare them")
    return given ^ True


@operation
def bitwise_invert(x: object, /) -> Tensor:
    """Every bit the other."""
    given = as_tensor("bitwise_invert", x)
    return given ^ (True if given.dtype == bool else -1)


@operation
def isnan(x: object, /) -> Tensor:
    """Where an element is not a number."""
    given = numbers("isnan", x)
    return given != given  # noqa: PLR0124


@operation
def isinf(x: object, /) -> Tensor:
    """Where an element is infinite."""
    given = numbers("isinf", x)
    return abs(given) == math.inf if is_float(given.dtype) else given != given  # noqa: PLR0124


@operation
def isfinite(x: object, /) -> Tensor:
    """Where an element is neither infinite nor NaN."""
    given = numbers("isfinite", x)
    return abs(given) < math.inf if is_float(given.dtype) else given == given  # noqa: PLR0124


def rounding(name: str) -> None:
    """An operation that rounds real numbers, and leaves whole ones."""

    def apply(x: object, /) -> Tensor:
        given = numbers(name, x)
        return operate(f"{name}_real", given) if is_float(given.dtype) else given

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of every element; round goes to the even one of two as near."
    operation(apply)


for each in ("floor", "ceil", "trunc", "round"):
    rounding(each)
