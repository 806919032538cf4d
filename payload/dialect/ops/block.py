"""The block of a model: one body for all of its layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from payload.builder import Builder, Value, for_each
from payload.dialect.op import INDEX, Cost, Kind, Kinds, need

Run = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class BlockOp:
    """A body that is run for every layer: it is given the layer's index, x and the caches, and gives the next ones.

    Weights are stacked along a first dimension; ``gpt.layer`` takes what a layer has of them. What the body gives for a
    cache must be that cache with rows appended.

    Attributes:
        layers: Number of layers.
    """

    name: ClassVar[str] = "block"
    gives: ClassVar[tuple[str, ...]] = ()
    layers: int

    def infer(self, body: Run, x: Kind, *caches: Kind) -> Kinds:
        """The shapes of x and the caches, which every layer keeps."""
        carried = (x, *caches)
        need(self.layers >= 1, f"layers must be at least 1, got {self.layers}")
        found = ", ".join(map(str, carried))
        need(all(each.dtype == "f32" for each in carried), f"x and the caches must be tensors of f32, they are {found}")
        given = tuple(body(INDEX, *carried))
        after = ", ".join(map(str, given))
        need(given == carried, f"the body must give the shapes that it is given, {found}, it gives {after}")
        return carried

    def reference(self, body: Run, *carried: Any) -> tuple[Any, ...]:  # noqa: ANN401 - arrays and numbers
        """What the last layer gives."""
        for layer in range(self.layers):
            carried = tuple(body(layer, *carried))
        return carried

    def cost(self, body: Cost, *carried: Kind) -> Cost:
        """The body's, once a layer."""
        return body.times(self.layers)

    def lower(self, body: Run, f: Builder, names: tuple[str, ...], *carried: Value) -> list[Value]:
        """A loop over layers."""
        return for_each(f, self.layers, carried, lambda layer, inside: list(body(layer, *inside)))
