"""Operators between tensors, arrays of NumPy and numbers, each the operation of its name."""

from typing import TYPE_CHECKING, cast

import numpy as np

from autotune.tensor.graph import call

if TYPE_CHECKING:
    from autotune.tensor.tensor import Tensor


def operate(name: str, *operands: object) -> "Tensor":
    """Call an operation that gives a tensor."""
    return cast("Tensor", call(name, *operands))


KNOWN = (np.ndarray, np.generic, bool, int, float)


class Operators:
    """The operators of a tensor; what is neither tensor, array nor number is left to Python."""

    __slots__ = ()

    def _meet(self, name: str, other: object) -> "Tensor":
        return operate(name, self, other) if isinstance(other, (Operators, *KNOWN)) else NotImplemented

    def _met(self, name: str, other: object) -> "Tensor":
        return operate(name, other, self) if isinstance(other, (Operators, *KNOWN)) else NotImplemented

    def __add__(self, other: object) -> "Tensor":
        return self._meet("add", other)

    def __radd__(self, other: object) -> "Tensor":
        return self._met("add", other)

    def __sub__(self, other: object) -> "Tensor":
        return self._meet("subtract", other)

    def __rsub__(self, other: object) -> "Tensor":
        return self._met("subtract", other)

    def __mul__(self, other: object) -> "Tensor":
        return self._meet("multiply", other)

    def __rmul__(self, other: object) -> "Tensor":
        return self._met("multiply", other)

    def __truediv__(self, other: object) -> "Tensor":
        return self._meet("divide", other)

    def __rtruediv__(self, other: object) -> "Tensor":
        return self._met("divide", other)

    def __floordiv__(self, other: object) -> "Tensor":
        return self._meet("floor_divide", other)

    def __rfloordiv__(self, other: object) -> "Tensor":
        return self._met("floor_divide", other)

    def __mod__(self, other: object) -> "Tensor":
        return self._meet("remainder", other)

    def __rmod__(self, other: object) -> "Tensor":
        return self._met("remainder", other)

    def __pow__(self, other: object) -> "Tensor":
        return self._meet("pow", other)

    def __rpow__(self, other: object) -> "Tensor":
        return self._met("pow", other)

    def __matmul__(self, other: object) -> "Tensor":
        return self._meet("matmul", other)

    def __rmatmul__(self, other: object) -> "Tensor":
        return self._met("matmul", other)

    def __and__(self, other: object) -> "Tensor":
        return self._meet("bitwise_and", other)

    def __rand__(self, other: object) -> "Tensor":
        return self._met("bitwise_and", other)

    def __or__(self, other: object) -> "Tensor":
        return self._meet("bitwise_or", other)

    def __ror__(self, other: object) -> "Tensor":
        return self._met("bitwise_or", other)

    def __xor__(self, other: object) -> "Tensor":
        return self._meet("bitwise_xor", other)

    def __rxor__(self, other: object) -> "Tensor":
        return self._met("bitwise_xor", other)

    def __lshift__(self, other: object) -> "Tensor":
        return self._meet("bitwise_left_shift", other)

    def __rlshift__(self, other: object) -> "Tensor":
        return self._met("bitwise_left_shift", other)

    def __rshift__(self, other: object) -> "Tensor":
        return self._meet("bitwise_right_shift", other)

    def __rrshift__(self, other: object) -> "Tensor":
        return self._met("bitwise_right_shift", other)

    def __lt__(self, other: object) -> "Tensor":
        return self._meet("less", other)

    def __le__(self, other: object) -> "Tensor":
        return self._meet("less_equal", other)

    def __gt__(self, other: object) -> "Tensor":
        return self._meet("greater", other)

    def __ge__(self, other: object) -> "Tensor":
        return self._meet("greater_equal", other)

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]
        return self._meet("equal", other)

    def __ne__(self, other: object) -> "Tensor":  # type: ignore[override]
        return self._meet("not_equal", other)

    __hash__ = object.__hash__

    def __neg__(self) -> "Tensor":
        return operate("negative", self)

    def __pos__(self) -> "Tensor":
        return operate("positive", self)

    def __abs__(self) -> "Tensor":
        return operate("abs", self)

    def __invert__(self) -> "Tensor":
        return operate("bitwise_invert", self)
