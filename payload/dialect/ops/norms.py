"""Layer norm and RMS norm of rows."""

import math
from dataclasses import dataclass
from typing import ClassVar

from payload import reference, rowwise
from payload.builder import Builder, Value
from payload.dialect.op import Cost, Kind, Kinds, moved, need, need_row, need_tensors
from payload.reference import LAYER_NORM_EPSILON, Array


def need_epsilon(epsilon: float) -> None:
    """Raise unless epsilon is in (0, 1)."""
    need(0 < epsilon < 1, f"epsilon must be above 0 and below 1, got {epsilon:g}; try {LAYER_NORM_EPSILON:g}")


@dataclass(frozen=True)
class LayerNormOp:
    """Layer norm, ``(x - mean) / sqrt(variance + epsilon) * gain + bias`` of every row of ``(T, C)`` (Ba et al., 2016).

    Attributes:
        epsilon: Summand of the variance.
    """

    name: ClassVar[str] = "layer_norm"
    gives: ClassVar[tuple[str, ...]] = ("norm",)
    epsilon: float = LAYER_NORM_EPSILON

    def infer(self, x: Kind, gain: Kind, bias: Kind) -> Kinds:
        """Return the type of x."""
        need_epsilon(self.epsilon)
        need_tensors(x=(x, 2))
        need_row(x.shape[1], gain=gain, bias=bias)
        return (x,)

    def reference(self, x: Array, gain: Array, bias: Array) -> tuple[Array, ...]:
        """Compute the layer norm."""
        return (reference.layer_norm(x, gain, bias, self.epsilon),)

    def cost(self, x: Kind, gain: Kind, bias: Kind) -> Cost:
        """Count per element sum 1, squares 3, affine 4; per row mean 1, reciprocal standard deviation 3."""
        return Cost(0, 8 * math.prod(x.shape) + 4 * x.shape[0], moved(x, gain, bias, x), x.shape[1])

    def lower(self, f: Builder, names: tuple[str, ...], x: Value, gain: Value, bias: Value) -> list[Value]:
        """Emit sums, mean, squares, reciprocal standard deviation, and one elementwise op."""
        return [rowwise.layer_norm(f, x, gain, bias, names[0], epsilon=self.epsilon)]


@dataclass(frozen=True)
class RmsNormOp:
    """RMS norm, ``x / sqrt(mean of squares + epsilon) * gain`` of every row of ``(T, C)`` (Zhang and Sennrich, 2019).

    Attributes:
        epsilon: Summand of the mean.
    """

    name: ClassVar[str] = "rms_norm"
    gives: ClassVar[tuple[str, ...]] = ("norm",)
    epsilon: float = LAYER_NORM_EPSILON

    def infer(self, x: Kind, gain: Kind) -> Kinds:
        """Return the type of x."""
        need_epsilon(self.epsilon)
        need_tensors(x=(x, 2))
        need_row(x.shape[1], gain=gain)
        return (x,)

    def reference(self, x: Array, gain: Array) -> tuple[Array, ...]:
        """Compute the RMS norm."""
        return (reference.rms_norm(x, gain, self.epsilon),)

    def cost(self, x: Kind, gain: Kind) -> Cost:
        """Count per element squares 2, scaling 2; per row reciprocal root 3."""
        return Cost(0, 4 * math.prod(x.shape) + 3 * x.shape[0], moved(x, gain, x), x.shape[1])

    def lower(self, f: Builder, names: tuple[str, ...], x: Value, gain: Value) -> list[Value]:
        """Emit the squares, the reciprocal root of their mean, and one elementwise op."""
        return [rowwise.rms_norm(f, x, gain, names[0], epsilon=self.epsilon)]
