"""Operations that are made of others: division of whole numbers, powers, signs, tests for what is not finite."""

import builtins
import math

from autotune.core.errors import TensorTypeError
from autotune.tensor.dtypes import bool, is_float, is_integer
from autotune.tensor.elementwise import where
from autotune.tensor.graph import operation
from autotune.tensor.operators import operate
from autotune.tensor.tensor import Tensor, as_tensor, operands

MOST_MULTIPLIED = 64  # a power that is whole and not larger is a product


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
def abs(x: object) -> Tensor:
    """Every element without its sign."""
    given = numbers("abs", x)
    return operate("absolute", given) if is_float(given.dtype) else operate("maximum", given, -given)


@operation
def positive(x: object) -> Tensor:
    """The tensor itself."""
    return numbers("positive", x)


@operation
def square(x: object) -> Tensor:
    """Every element times itself."""
    given = numbers("square", x)
    return given * given


@operation
def reciprocal(x: object) -> Tensor:
    """One over every element."""
    return 1.0 / as_tensor("reciprocal", x)


@operation
def asinh(x: object) -> Tensor:
    """Inverse of sinh, of every element."""
    size = operate("absolute", x)
    over = 1.0 / size  # no square of a large number
    return sign(x) * operate("log1p", size + size / (over + operate("sqrt", 1.0 + over * over)))


@operation
def acosh(x: object) -> Tensor:
    """Inverse of cosh, of every element."""
    above = as_tensor("acosh", x) - 1.0
    return operate("log1p", above + operate("sqrt", above) * operate("sqrt", above + 2.0))


@operation
def atanh(x: object) -> Tensor:
    """Inverse of tanh, of every element."""
    size = operate("absolute", x)
    return sign(x) * (0.5 * operate("log1p", 2.0 * size / (1.0 - size)))


@operation
def sign(x: object) -> Tensor:
    """-1, 0 or 1, as an element is negative, zero or positive; NaN stays."""
    given = numbers("sign", x)
    return where(given > 0, 1, where(given < 0, -1, given))


@operation
def floor_divide(x: object, y: object) -> Tensor:
    """The quotient, rounded down. Of whole numbers, what is divided by 0 is 0."""
    a, b = operands("floor_divide", x, y)
    if is_float(a.dtype):
        left = remainder(a, b)
        return operate("round_real", (a - left) / b)
    zero, minus = b == 0, b == -1
    safe = where(zero | minus, 1, b)
    toward_zero = operate("divide_toward_zero", a, safe)
    left = a - toward_zero * safe
    down = where((left != 0) & ((left < 0) != (safe < 0)), toward_zero - 1, toward_zero)
    return where(zero, 0, where(minus, -a, down))


@operation
def remainder(x: object, y: object) -> Tensor:
    """What floor division leaves: of the sign of the divisor. Of whole numbers, what is divided by 0 leaves 0."""
    a, b = operands("remainder", x, y)
    if is_integer(a.dtype) and is_integer(b.dtype):
        return where(b == 0, 0, a - floor_divide(a, b) * b)
    left = operate("remainder_toward_zero", a, b)
    return where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


@operation
def pow(x: object, y: object) -> Tensor:
    """Powers. The exponent of whole numbers must be a number of Python that is not negative."""
    if isinstance(y, (int, float)) and not isinstance(y, builtins.bool) and float(y).is_integer():
        base = numbers("pow", x)
        whole = isinstance(y, int) or is_float(base.dtype)
        if whole and 0 <= y <= MOST_MULTIPLIED:
            return product_of(base, int(y))
    given = operands("pow", x, y)
    if not all(is_float(each.dtype) for each in given):
        said = ", ".join(each.dtype.name for each in given)
        raise TensorTypeError(
            f"operands of pow must be real, or whole to a power from 0 to {MOST_MULTIPLIED}, got {said}; use astype"
        )
    return operate("power", *given)


def product_of(base: Tensor, count: int) -> Tensor:
    """A tensor times itself so many times, by squares."""
    result, square_ = None, base
    while count:
        if count % 2:
            result = square_ if result is None else result * square_
        count //= 2
        square_ = square_ * square_ if count else square_
    return operate("ones_like", base) if result is None else result


@operation
def clip(x: object, min: object = None, max: object = None) -> Tensor:
    """Elements not below `min` and not above `max`."""
    given = numbers("clip", x)
    given = given if min is None else operate("maximum", given, min)
    return given if max is None else operate("minimum", given, max)


@operation
def logical_not(x: object) -> Tensor:
    """Where a boolean does not hold."""
    given = as_tensor("logical_not", x)
    if given.dtype != bool:
        raise TensorTypeError(f"operands of logical_not must be bool, they are {given.dtype.name}; compare them")
    return given ^ True


@operation
def bitwise_invert(x: object) -> Tensor:
    """Every bit the other."""
    given = as_tensor("bitwise_invert", x)
    return given ^ (True if given.dtype == bool else -1)


@operation
def isnan(x: object) -> Tensor:
    """Where an element is not a number."""
    given = numbers("isnan", x)
    return given != given  # noqa: PLR0124


@operation
def isinf(x: object) -> Tensor:
    """Where an element is infinite."""
    given = numbers("isinf", x)
    return abs(given) == math.inf if is_float(given.dtype) else given != given  # noqa: PLR0124


@operation
def isfinite(x: object) -> Tensor:
    """Where an element is neither infinite nor NaN."""
    given = numbers("isfinite", x)
    return abs(given) < math.inf if is_float(given.dtype) else given == given  # noqa: PLR0124


def rounding(name: str) -> None:
    """An operation that rounds real numbers, and leaves whole ones."""

    def apply(x: object) -> Tensor:
        given = numbers(name, x)
        return operate(f"{name}_real", given) if is_float(given.dtype) else given

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of every element; round goes to the even one of two as near."
    operation(apply)


for each in ("floor", "ceil", "trunc", "round"):
    rounding(each)
