"""The repeated block of a model: one body for all layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from payload.builder import Builder, Value, for_each
from payload.dialect.op import INDEX, Cost, Kind, Kinds, need

Run = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class BlockOp:
    """Loop over layers: the body takes the layer index, x and the caches, and yields the next x and caches.

    Weights are stacked along a leading dimension, from which ``gpt.layer`` slices one layer. The value that the body
    yields for a cache must be that cache with rows appended.

    Attributes:
        layers: Number of layers.
    """

    name: ClassVar[str] = "block"
    gives: ClassVar[tuple[str, ...]] = ()
    layers: int

    def infer(self, body: Run, x: Kind, *caches: Kind) -> Kinds:
        """Return the types of x and the caches, which are loop-invariant."""
        carried = (x, *caches)
        need(self.layers >= 1, f"layers must be at least 1, got {self.layers}")
        types = ", ".join(map(str, carried))
        need(all(each.dtype == "f32" for each in carried), f"x and the caches must be tensors of f32, they are {types}")
        yielded = tuple(body(INDEX, *carried))
        after = ", ".join(map(str, yielded))
        need(yielded == carried, f"the body must give the shapes that it is given, {types}, it gives {after}")
        return carried

    def reference(self, body: Run, *carried: Any) -> tuple[Any, ...]:  # noqa: ANN401 - arrays and numbers
        """Compute the values that the last layer yields."""
        for layer in range(self.layers):
            carried = tuple(body(layer, *carried))
        return carried

    def cost(self, body: Cost, *carried: Kind) -> Cost:
        """Multiply the cost of the body by the number of layers."""
        return body.times(self.layers)

    def lower(self, body: Run, f: Builder, names: tuple[str, ...], *carried: Value) -> list[Value]:
        """Emit an ``scf.for`` over the layers."""
        return for_each(f, self.layers, carried, lambda layer, inside: list(body(layer, *inside)))
