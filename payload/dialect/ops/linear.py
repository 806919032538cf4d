"""Linear layers, residual additions, and dequantization of integer matrices."""

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
    """Linear layer, ``x weight + bias``: ``(T, K) x (K, N) + (N) -> (T, N)``; bias is optional.

    Attributes:
        transposed: Whether weight is stored ``(N, K)``, as in a head that is tied to the token table.
    """

    name: ClassVar[str] = "linear"
    gives: ClassVar[tuple[str, ...]] = ("linear",)
    restores: ClassVar[bool] = True
    transposed: bool = False

    def infer(self, x: Kind, weight: Kind, bias: Kind | None = None) -> Kinds:
        """Return the type ``(T, N)``."""
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
        """Compute ``x weight + bias``."""
        y = reference.matmul(x, weight, transpose_b=self.transposed)
        return (y if bias is None else y + reference.double(bias),)

    def cost(self, x: Kind, weight: Kind, bias: Kind | None = None) -> Cost:
        """Count the product, and one addition per element for the bias."""
        (y,) = self.infer(x, weight, bias)
        others = 0 if bias is None else math.prod(y.shape)
        return Cost(2 * math.prod(y.shape) * x.shape[1], others, moved(x, weight, bias, y), x.shape[1])

    def lower(
        self, f: Builder, names: tuple[str, ...], x: Value, weight: Value, bias: Value | None = None
    ) -> list[Value]:
        """Emit a matmul, the multiplication by the scales if the weight is quantized, and the bias."""
        (name,) = names
        scale = self.scale_of(weight)
        whole = name if scale is None else f"{name}_whole"
        y = ops.matmul(f, x, weight, f"{name}_matmul" if bias is not None else whole, transpose_b=self.transposed)
        if scale is not None:
            y = ops.scale_columns(f, y, scale, f"{name}_scaled" if bias is not None else name)
        return [y if bias is None else ops.add_bias(f, y, bias, name)]

    def scale_of(self, weight: Value) -> Value | None:
        """Return the scales of a quantized weight's output columns; `None` for other weights.

        Raises:
            PayloadError: The scales are per row of the product's reduction dimension.
        """
        if not isinstance(weight, Restored):
            return None
        if weight.summed % 2 != (1 if self.transposed else 0):
            raise PayloadError("scales of weight must be one a column of the product; change `summed` of gpt.restore")
        return weight.scale


@dataclass(frozen=True)
class AddOp:
    """Addition ``x + y`` of equal shapes, or of a row ``(N)`` to each row of x."""

    name: ClassVar[str] = "add"
    gives: ClassVar[tuple[str, ...]] = ("sum",)

    def infer(self, x: Kind, y: Kind) -> Kinds:
        """Return the type of x."""
        need_tensors(x=(x, max(x.rank, 1)), y=(y, max(y.rank, 1)))
        need(
            y.shape in (x.shape, x.shape[-1:]),
            f"y must be of x's shape, or one of its rows, x is {x} and y is {y}",
        )
        return (x,)

    def reference(self, x: Array, y: Array) -> tuple[Array, ...]:
        """Compute ``x + y``."""
        return (reference.double(x) + reference.double(y),)

    def cost(self, x: Kind, y: Kind) -> Cost:
        """Count one addition per element."""
        return Cost(others=math.prod(x.shape), bytes=moved(x, y, x))

    def lower(self, f: Builder, names: tuple[str, ...], x: Value, y: Value) -> list[Value]:
        """Emit one elementwise op."""
        return [(ops.add if y.rank == x.rank else ops.add_bias)(f, x, y, names[0])]


@dataclass(frozen=True)
class RestoreOp:
    """Dequantization ``stored * scale`` of an i8 matrix, with one scale for every slice along dimension `summed`.

    Its lowering is fused into the consumer, which scales its sums instead of the matrix.

    Attributes:
        summed: Reduction dimension of the consuming product, 0 or 1.
    """

    name: ClassVar[str] = "restore"
    gives: ClassVar[tuple[str, ...]] = ("restored",)
    summed: int

    def infer(self, stored: Kind, scale: Kind) -> Kinds:
        """Return the shape of the stored matrix, in f32."""
        need_tensors(("i8",), stored=(stored, 2))
        need(self.summed in (0, 1), f"summed must be 0 or 1, got {self.summed}")
        need_row(stored.shape[1 - self.summed], scale=scale)
        return (Kind(stored.shape),)

    def reference(self, stored: Array, scale: Array) -> tuple[Array, ...]:
        """Compute ``stored * scale``."""
        return (stored * np.expand_dims(reference.double(scale), self.summed),)

    def cost(self, stored: Kind, scale: Kind) -> Cost:
        """Return no cost: the consumer applies the scales."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], stored: Value, scale: Value) -> list[Value]:
        """Return the stored matrix together with its scales; nothing is emitted."""
        return [Restored(stored.name, stored.shape, stored.dtype, scale=scale, summed=self.summed)]
