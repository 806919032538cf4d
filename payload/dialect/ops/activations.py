"""Elementwise ops between linear layers."""

import math
from dataclasses import dataclass
from typing import ClassVar

from payload import ops, reference
from payload.builder import Builder, Value
from payload.dialect.op import Cost, Kind, Kinds, moved, need, need_tensors
from payload.reference import Array


@dataclass(frozen=True)
class GeluOp:
    """GELU, ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`` (Hendrycks and Gimpel, 2016)."""

    name: ClassVar[str] = "gelu"
    gives: ClassVar[tuple[str, ...]] = ("gelu",)

    def infer(self, x: Kind) -> Kinds:
        """Return the type of x."""
        need_tensors(x=(x, max(x.rank, 1)))
        return (x,)

    def reference(self, x: Array) -> tuple[Array, ...]:
        """Compute GELU in its tanh form."""
        return (reference.gelu(x),)

    def cost(self, x: Kind) -> Cost:
        """Count nine operations per element, of which one is a hyperbolic tangent."""
        return Cost(others=9 * math.prod(x.shape), bytes=moved(x, x))

    def lower(self, f: Builder, names: tuple[str, ...], x: Value) -> list[Value]:
        """Emit one elementwise op."""
        return [ops.gelu(f, x, names[0])]


@dataclass(frozen=True)
class SwigluOp:
    """SwiGLU, ``gate / (1 + exp(-gate)) * up`` of equal shapes (Shazeer, 2020)."""

    name: ClassVar[str] = "swiglu"
    gives: ClassVar[tuple[str, ...]] = ("swiglu",)

    def infer(self, gate: Kind, up: Kind) -> Kinds:
        """Return the type of both operands."""
        need_tensors(gate=(gate, max(gate.rank, 1)), up=(up, max(up.rank, 1)))
        need(gate.shape == up.shape, f"gate and up must be of one shape, gate is {gate} and up is {up}")
        return (gate,)

    def reference(self, gate: Array, up: Array) -> tuple[Array, ...]:
        """Compute SwiGLU."""
        return (reference.swiglu(gate, up),)

    def cost(self, gate: Kind, up: Kind) -> Cost:
        """Count five operations per element, of which one is an exponential."""
        return Cost(others=5 * math.prod(gate.shape), bytes=moved(gate, up, gate))

    def lower(self, f: Builder, names: tuple[str, ...], gate: Value, up: Value) -> list[Value]:
        """Emit one elementwise op."""
        return [ops.swiglu(f, gate, up, names[0])]
