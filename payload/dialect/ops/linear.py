"""Linear layers, sums of the residual stream, and matrices that are stored in whole numbers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune.core.errors import PayloadError
from payload import ops, reference
from payload.builder import Builder, Value
from payload.dialect.op import FLOATS, Cost, Kind, Kinds, Restored, moved, need, need_row, need_tensors
from payload.reference import Array


@dataclass(frozen=True)
class LinearOp:
    """``x weight + bias``: ``(T, K) x (K, N) + (N) -> (T, N)``; bias may be left out.

    Attributes:
        transposed: Whether weight is stored ``(N, K)``, as the head of a model that shares its table is.
    """

    name: ClassVar[str] = "linear"
    gives: ClassVar[tuple[str, ...]] = ("linear",)
    restores: ClassVar[bool] = True
    transposed: bool = False

    def infer(self, x: Kind, weight: Kind, bias: Kind | None = None) -> Kinds:
        """``(T, N)``."""
        need_tensors(x=(x, 2))
        need_tensors(FLOATS, weight=(weight, 2))
        summed, columns = weight.shape[::-1] if self.transposed else weight.shape
        how = ", transposed" if self.transposed else ""
        need(
            x.shape[1] == summed,
            f"x and weight must share the size that is summed, x is {x} and weight is {weight}{how}; "
            f"give weight {x.shape[1]} {'columns' if self.transposed else 'rows'}",
        )
        need_row(columns, bias=bias)
        return (Kind((x.shape[0], columns)),)

    def reference(self, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, ...]:
        """``x weight + bias``."""
        y = reference.matmul(x, weight, transpose_b=self.transposed)
        return (y if bias is None else y + reference.double(bias),)

    def cost(self, x: Kind, weight: Kind, bias: Kind | None = None) -> Cost:
        """A product; of the bias an addition an element."""
        (y,) = self.infer(x, weight, bias)
        others = 0 if bias is None else math.prod(y.shape)
        return Cost(2 * math.prod(y.shape) * x.shape[1], others, moved(x, weight, bias, y), x.shape[1])

    def lower(
        self, f: Builder, names: tuple[str, ...], x: Value, weight: Value, bias: Value | None = None
    ) -> list[Value]:
        """A matmul; the product times the scales where the weight is stored in whole numbers; and the bias."""
        (name,) = names
        scale = self.scale_of(weight)
        whole = name if scale is None else f"{name}_whole"
        y = ops.matmul(f, x, weight, f"{name}_matmul" if bias is not None else whole, transpose_b=self.transposed)
        if scale is not None:
            y = ops.scale_columns(f, y, scale, f"{name}_scaled" if bias is not None else name)
        return [y if bias is None else ops.add_bias(f, y, bias, name)]

    def scale_of(self, weight: Value) -> Value | None:
        """The scales of a weight's columns; `None` where it is stored as it is.

        Raises:
            PayloadError: The scales are of rows.
        """
        if not isinstance(weight, Restored):
            return None
        if weight.summed % 2 != (1 if self.transposed else 0):
            raise PayloadError("scales of weight must be one a column of the product; change `summed` of gpt.restore")
        return weight.scale


@dataclass(frozen=True)
class AddOp:
    """``x + y``: of equal shapes, or a row ``(N)`` to each of x."""

    name: ClassVar[str] = "add"
    gives: ClassVar[tuple[str, ...]] = ("sum",)

    def infer(self, x: Kind, y: Kind) -> Kinds:
        """The shape of x."""
        need_tensors(x=(x, max(x.rank, 1)), y=(y, max(y.rank, 1)))
        need(
            y.shape in (x.shape, x.shape[-1:]),
            f"y must be of x's shape, or one of its rows, x is {x} and y is {y}",
        )
        return (x,)

    def reference(self, x: Array, y: Array) -> tuple[Array, ...]:
        """``x + y``."""
        return (reference.double(x) + reference.double(y),)

    def cost(self, x: Kind, y: Kind) -> Cost:
        """An addition an element."""
        return Cost(others=math.prod(x.shape), bytes=moved(x, y, x))

    def lower(self, f: Builder, names: tuple[str, ...], x: Value, y: Value) -> list[Value]:
        """One elementwise op."""
        return [(ops.add if y.rank == x.rank else ops.add_bias)(f, x, y, names[0])]


@dataclass(frozen=True)
class RestoreOp:
    """``stored * scale``: a matrix of whole numbers with a scale for every slice along the dimension that is summed.

    It is lowered with what reads it: the sum is multiplied, not the matrix.

    Attributes:
        summed: The dimension that is summed over, 0 or 1.
    """

    name: ClassVar[str] = "restore"
    gives: ClassVar[tuple[str, ...]] = ("restored",)
    summed: int

    def infer(self, stored: Kind, scale: Kind) -> Kinds:
        """The shape that is stored, in f32."""
        need_tensors(("i8",), stored=(stored, 2))
        need(self.summed in (0, 1), f"summed must be 0 or 1, got {self.summed}")
        need_row(stored.shape[1 - self.summed], scale=scale)
        return (Kind(stored.shape),)

    def reference(self, stored: Array, scale: Array) -> tuple[Array, ...]:
        """``stored * scale``."""
        return (stored * np.expand_dims(reference.double(scale), self.summed),)

    def cost(self, stored: Kind, scale: Kind) -> Cost:
        """Nothing of its own."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], stored: Value, scale: Value) -> list[Value]:
        """What is stored, and its scales."""
        return [Restored(stored.name, stored.shape, stored.dtype, scale=scale, summed=self.summed)]
