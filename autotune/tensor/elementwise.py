"""Elementwise operations: arithmetic, comparisons, selection, logic, mathematical functions."""

from collections.abc import Callable
from typing import Any

from autotune.core.errors import TensorTypeError
from autotune.tensor.devices import on_cpu
from autotune.tensor.dtypes import DType, Flag, as_dtype, bool, is_float, is_integer, promote
from autotune.tensor.graph import OPERATIONS, Node, operation
from autotune.tensor.shapes import broadcast
from autotune.tensor.tensor import Tensor, as_tensor, operands, operate

Kinds = Callable[[DType], Flag]
EXPONENTS = ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "erf")
REAL = (*EXPONENTS, "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
NUMBERS = ("add", "subtract", "multiply", "maximum", "minimum")
ORDER = ("less", "less_equal", "greater", "greater_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")


def is_number(dtype: DType) -> Flag:
    """Return whether elements are numbers."""
    return dtype != bool


def is_bool(dtype: DType) -> Flag:
    """Return whether elements are booleans."""
    return dtype == bool


def is_whole(dtype: DType) -> Flag:
    """Return whether elements are integers or booleans."""
    return not is_float(dtype)


KINDS: dict[Kinds, str] = {
    is_number: "numbers",
    is_bool: "booleans",
    is_whole: "whole numbers or booleans",
    is_float: "real",
    is_integer: "whole numbers",
}


def same(op: str, values: tuple[Any, ...], kinds: Kinds | None = None, gives: DType | None = None) -> Tensor:
    """Build an elementwise operation, after broadcasting and promoting its operands.

    Args:
        op: Name of the operation.
        values: Operands.
        kinds: Predicate of the element types that it supports; `None` for all.
        gives: Element type of the result; `None` for that of the operands.

    Raises:
        TensorError: Shapes do not broadcast.
        TensorTypeError: Element types are of different kinds, or not supported.
    """
    tensors = operands(op, *values)
    dtype = promote(op, *(x.dtype for x in tensors))
    if kinds is not None and not kinds(dtype):
        raise TensorTypeError(f"operands of {op} must be {KINDS[kinds]}, they are {dtype.name}; use astype")
    shape = broadcast(op, *(x.shape for x in tensors))
    inputs = tuple(operate("astype", x, dtype).node for x in tensors)
    return Tensor(Node(op, shape, dtype if gives is None else gives, inputs))


def make(name: str, count: int, kinds: Kinds | None, gives: DType | None, about: str) -> Callable[..., Tensor]:
    """Define an elementwise operation of one or two operands."""

    def of_one(x: object, /) -> Tensor:
        return same(name, (x,), kinds, gives)

    def of_two(x1: object, x2: object, /) -> Tensor:
        return same(name, (x1, x2), kinds, gives)

    apply: Callable[..., Tensor] = of_one if count == 1 else of_two
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = about
    return operation(apply)


for each in REAL:
    make(each, 1, is_float, None, f"{each} of every element.")
for each in NUMBERS:
    make(each, 2, is_number, None, f"{each} of two tensors, element by element.")
for each in ORDER:
    make(each, 2, is_number, bool, f"Where the first operand is {each.replace('_', ' or ')} than the second.")
for each in ("equal", "not_equal"):
    make(each, 2, None, bool, f"Where two tensors are {each.replace('_', ' ')}.")
for each in LOGIC:
    make(each, 2, is_bool, None, f"{each} of booleans.")
for each in BITS:
    make(each, 2, is_whole, None, f"{each} of whole numbers or booleans.")
for each in ("floor", "ceil", "trunc", "round"):
    make(f"{each}_real", 1, is_float, None, f"{each} of real numbers.")
make("divide", 2, is_float, None, "The first operand over the second; of real numbers.")
make("atan2", 2, is_float, None, "Angle of a point, from its y and x.")
make("divide_toward_zero", 2, is_integer, None, "Whole quotients; the divisor is neither 0 nor -1.")
make("remainder_toward_zero", 2, is_float, None, "What is left of the first operand, with its sign.")
make("power", 2, is_float, None, "The first operand to the power of the second.")
make("copysign", 2, is_float, None, "The first operand without its sign, with that of the second.")
make("shift_left", 2, is_integer, None, "Bits further up; positions are fewer than an element has.")
make(
    "shift_right", 2, is_integer, None, "Bits further down, the sign repeated; positions are fewer than an element has."
)
make("negative", 1, is_number, None, "Every element with the other sign.")
make("absolute", 1, is_float, None, "Real numbers without their sign.")


@operation
def astype(x: object, dtype: object, /, *, copy: Flag = True, device: str | None = None) -> Tensor:
    """Convert to another element type: real to integer rounds towards zero, to bool compares with 0.

    Args:
        x: Tensor to convert.
        dtype: Element type to convert to.
        copy: Whether elements must be copied; without effect, since tensors are immutable.
        device: Device of the result: the CPU.
    """
    on_cpu("astype", device)
    source, target = as_tensor("astype", x), as_dtype(dtype)
    if source.dtype == target:
        return source
    if source.dtype == bool and is_float(target):
        return Tensor(Node("cast", source.shape, target, (astype(source, "i32").node,)))
    return Tensor(Node("cast", source.shape, target, (source.node,)))


@operation
def where(condition: object, x1: object, x2: object, /) -> Tensor:
    """Select elements of `x1` where the condition is true, else of `x2`.

    Raises:
        TensorTypeError: The condition is not boolean, or `x1` and `x2` are of different kinds.
    """
    mask = as_tensor("where", condition)
    if mask.dtype != bool:
        raise TensorTypeError(f"a condition must be bool, it is {mask.dtype.name}; compare it")
    values = operands("where", x1, x2)
    dtype = promote("where", *(value.dtype for value in values))
    shape = broadcast("where", mask.shape, *(value.shape for value in values))
    inputs = (mask.node, *(astype(value, dtype).node for value in values))
    return Tensor(Node("where", shape, dtype, inputs))


def function(name: str) -> Callable[..., Tensor]:
    """Return the operation of the given name."""
    return OPERATIONS[name]
