"""`Tensor`: an array that is not computed yet."""

from collections.abc import Iterator
from importlib import import_module
from math import prod
from types import ModuleType
from typing import cast

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TensorError, TensorTypeError
from autotune.core.payload import Array
from autotune.tensor.devices import on_cpu
from autotune.tensor.dtypes import DType
from autotune.tensor.graph import Node, call, refused
from autotune.tensor.shapes import Shape

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # of the standard
Axes = int | tuple[int, ...] | None
NUMBERS = (np.ndarray, np.generic, bool, int, float)  # what operators take beside tensors


def operate(name: str, *operands: object) -> "Tensor":
    """Call the operation of the given name, which must return a tensor."""
    return cast("Tensor", call(name, *operands))


class Tensor:
    """A lazy array: its shape and element type are known, its elements are computed when they are read.

    Tensors are immutable: every operation returns a new tensor. `numpy` computes the elements. Python operators call
    the operations of their names; for an operand that is neither tensor, array nor number they return `NotImplemented`.

    Args:
        node: Graph node that computes the tensor.
    """

    __slots__ = ("_node",)
    __array_ufunc__ = None  # NumPy leaves operators to tensors

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """Graph node that computes the tensor."""
        return self._node

    @property
    def shape(self) -> Shape:
        """Sizes, outermost first."""
        return self._node.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._node.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def device(self) -> str:
        """Device that holds the tensor."""
        return "cpu"

    @property
    def T(self) -> "Tensor":  # noqa: N802
        """Transpose of a matrix."""
        if self.ndim != 2:
            raise refused(TensorError(f".T must be of a matrix, shape is {self.shape}; use .mT or permute_dims"))
        return self.mT

    @property
    def mT(self) -> "Tensor":  # noqa: N802
        """Transpose of the last two dimensions."""
        return operate("matrix_transpose", self)

    def astype(self, dtype: object) -> "Tensor":
        """Convert the elements to another element type."""
        return operate("astype", self, dtype)

    def reshape(self, *shape: object) -> "Tensor":
        """Return the same elements in another shape; a size of -1 is inferred from the others."""
        return operate("reshape", self, shape[0] if len(shape) == 1 else shape)

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> "Tensor":
        """Sum along axes."""
        return cast(Tensor, call("sum", self, axis, keepdims=keepdims))

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> "Tensor":
        """Mean along axes."""
        return cast(Tensor, call("mean", self, axis, keepdims=keepdims))

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> "Tensor":
        """Maximum along axes."""
        return cast(Tensor, call("max", self, axis, keepdims=keepdims))

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> "Tensor":
        """Minimum along axes."""
        return cast(Tensor, call("min", self, axis, keepdims=keepdims))

    def numpy(self) -> Array:
        """Compute the elements and return a copy; the first call for a graph of this structure compiles it.

        Raises:
            TensorError: The tensor is an argument of a traced function, or depends on one.
        """
        if self._node.array is None:
            self._node = operate("compute", self).node  # drops the graph behind it
        return np.array(self._node.array)

    def to_device(self, device: str, /, *, stream: object = None) -> "Tensor":
        """Return the tensor itself; the only device is the CPU."""
        try:
            on_cpu("to_device", device)
        except TensorError as error:
            raise refused(error) from None
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version not in (None, *VERSIONS):
            raise refused(
                TensorError(f"the version of the standard must be one of {', '.join(VERSIONS)}, got {api_version}")
            )
        return import_module(__name__.rpartition(".")[0])

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        present = {name: value for name, value in options.items() if value is not None}
        return self.numpy().__dlpack__(stream=None, **present)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU, device 0

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self.numpy(), dtype=dtype)

    def __repr__(self) -> str:
        elements = "" if self._node.array is None else f", {np.array2string(self._node.array, threshold=20)}"
        return f"Tensor({self.shape}, {self.dtype.name}{elements})"

    def __len__(self) -> int:
        if not self.shape:
            raise refused(TensorTypeError("a tensor of 0 dimensions has no length; use .size"))
        return self.shape[0]

    def __iter__(self) -> Iterator["Tensor"]:
        return iter([self[index] for index in range(len(self))])

    def __getitem__(self, key: object) -> "Tensor":
        return operate("take_part", self, key)

    def __setitem__(self, key: object, value: object) -> None:
        raise refused(TensorTypeError("a tensor must not be written; use where, concat, or slices of it"))

    def _decide(self, method: str) -> TensorError:
        return refused(
            TensorError(
                f"{method} must not be asked of a tensor, here of shape {self.shape} and {self.dtype.name}: no control "
                "flow can depend on elements; use where, or .numpy() outside of what is compiled"
            )
        )

    def __bool__(self) -> bool:
        raise self._decide("bool()")

    def __int__(self) -> int:
        raise self._decide("int()")

    def __float__(self) -> float:
        raise self._decide("float()")

    def __complex__(self) -> complex:
        raise self._decide("complex()")

    def __index__(self) -> int:
        raise self._decide("an index")

    def __contains__(self, value: object) -> bool:
        raise self._decide("`in`")

    def _meet(self, name: str, other: object) -> "Tensor":
        return operate(name, self, other) if isinstance(other, (Tensor, *NUMBERS)) else NotImplemented

    def _met(self, name: str, other: object) -> "Tensor":
        return operate(name, other, self) if isinstance(other, (Tensor, *NUMBERS)) else NotImplemented

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


def as_tensor(name: str, value: object, beside: DType | None = None) -> Tensor:
    """Convert an operand to a tensor: a tensor, a NumPy array, or a number if another operand gives its element type.

    Args:
        name: Name of the operation, for the message.
        value: Operand to convert.
        beside: Element type of the other operand, which a number is converted to; `None` if there is none.

    Raises:
        TensorTypeError: The value is none of them.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float)) and beside is not None:
        return operate("scalar", name, value, beside)
    if isinstance(value, np.ndarray):
        return operate("asarray", value)
    raise TensorTypeError(
        f"operands of {name} must be tensors, arrays or numbers, got {type(value).__name__}; use asarray"
    )


def operands(name: str, *values: object) -> list[Tensor]:
    """Convert the operands of an operation to tensors; numbers take the element type of the first tensor.

    Raises:
        TensorTypeError: An operand is no tensor, array or number, or all are numbers.
    """
    arrays = [value for value in values if isinstance(value, (Tensor, np.ndarray))]
    beside = as_tensor(name, arrays[0]).dtype if arrays else None
    return [as_tensor(name, value, beside) for value in values]
