"""Integer and real division, and powers; zeros, infinities and NaN follow the array API standard."""

import builtins

from autotune.core.errors import TensorTypeError
from autotune.tensor.arithmetic import isfinite, numbers
from autotune.tensor.dtypes import is_float, is_integer, promote
from autotune.tensor.elementwise import where
from autotune.tensor.graph import operation
from autotune.tensor.shapes import broadcast
from autotune.tensor.tensor import Tensor, operands, operate

MOST_MULTIPLIED = 64  # largest constant integer exponent that is expanded to multiplications
BITS = 6  # of an exponent that are evaluated: only -1, 0 and 1 have a 64th power that fits in i64


@operation
def floor_divide(x1: object, x2: object, /) -> Tensor:
    """Quotient rounded towards negative infinity; an integer divided by 0 gives 0."""
    a, b = operands("floor_divide", x1, x2)
    if is_float(a.dtype) or is_float(b.dtype):
        quotient = operate("divide", a, b)
        whole = operate("round_real", (a - remainder(a, b)) / b)
        signed = where(whole == 0, operate("copysign", whole, quotient), whole)
        return where(isfinite(quotient) & isfinite(b), signed, quotient)
    is_zero, is_minus_one = b == 0, b == -1
    safe = where(is_zero | is_minus_one, 1, b)
    toward_zero = operate("divide_toward_zero", a, safe)
    truncation_error = a - toward_zero * safe
    down = where((truncation_error != 0) & ((truncation_error < 0) != (safe < 0)), toward_zero - 1, toward_zero)
    return where(is_zero, 0, where(is_minus_one, -a, down))


@operation
def remainder(x1: object, x2: object, /) -> Tensor:
    """Remainder of floor division, with the sign of the divisor; an integer divided by 0 leaves 0."""
    a, b = operands("remainder", x1, x2)
    if is_integer(a.dtype) and is_integer(b.dtype):
        return where(b == 0, 0, a - floor_divide(a, b) * b)
    truncated = operate("remainder_toward_zero", a, b)
    floored = where((truncated < 0) != (b < 0), truncated + b, truncated)
    return where(truncated == 0, operate("copysign", truncated, b), floored)


@operation
def pow(x1: object, x2: object, /) -> Tensor:
    """Powers; integer powers are exact if they fit, and 0 for a negative exponent unless the base is 1 or -1."""
    if isinstance(x2, (int, float)) and not isinstance(x2, builtins.bool) and float(x2).is_integer():
        base = numbers("pow", x1)
        is_whole = isinstance(x2, int) or is_float(base.dtype)
        if is_whole and 0 <= x2 <= MOST_MULTIPLIED:
            return product_of(base, int(x2))
    base, exponent = operands("pow", x1, x2)
    if is_float(base.dtype) and is_float(exponent.dtype):
        return operate("power", base, exponent)
    if is_integer(base.dtype) and is_integer(exponent.dtype):
        return whole_power(base, exponent)
    raise TensorTypeError(
        f"operands of pow must be real or whole, both, got {base.dtype.name}, {exponent.dtype.name}; use astype"
    )


def product_of(base: Tensor, count: int) -> Tensor:
    """Return a tensor to the power of `count`, by repeated squaring."""
    result, square = None, base
    while count:
        if count % 2:
            result = square if result is None else result * square
        count //= 2
        square = square * square if count else square
    return operate("ones_like", base) if result is None else result


def whole_power(base: Tensor, exponent: Tensor) -> Tensor:
    """Return integer powers, by repeated squaring over the bits of the exponents."""
    dtype = promote("pow", base.dtype, exponent.dtype)
    square = operate("broadcast_to", operate("astype", base, dtype), broadcast("pow", base.shape, exponent.shape))
    result = operate("ones_like", square)
    for bit in range(BITS):
        result = where((exponent & (1 << bit)) != 0, result * square, result)
        square = square * square if bit + 1 < BITS else square
    base_one = where(base == 1, 1, operate("zeros_like", result))
    sign = where((base == -1) & ((exponent & 1) != 0), -1, where(base == -1, 1, base_one))
    return where((exponent < 0) | (exponent >= 1 << BITS), sign, result)
