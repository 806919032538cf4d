"""Caches of keys and values, ``(L, H, P, D)``: in-place appends of rows, and slices of the filled rows."""

from dataclasses import dataclass
from typing import ClassVar

from payload import cached, reference
from payload.builder import Builder, DynamicSize, Value
from payload.dialect.op import Cost, IndexRanges, Kind, Kinds, moved, need, need_index, need_tensors
from payload.reference import Array


@dataclass(frozen=True)
class CacheAppendOp:
    """Insertion of ``(H, T, D)`` into one layer of a cache, starting at row `position`, by default 0."""

    name: ClassVar[str] = "cache_append"
    gives: ClassVar[tuple[str, ...]] = ("cache_next",)

    def infer(self, cache: Kind, rows: Kind, layer: Kind, position: Kind | None = None) -> Kinds:
        """Return the type of the cache."""
        need_tensors(cache=(cache, 4), rows=(rows, 3))
        need_index(layer=layer, position=position)
        _, heads, positions, depth = cache.shape
        need(
            (rows.shape[0], rows.shape[2]) == (heads, depth) and rows.shape[1] <= positions,
            f"rows must fit a layer of cache, rows is {rows} and cache is {cache}; its last three sizes are heads, "
            "indices and width",
        )
        return (cache,)

    def index_ranges(self, cache: Kind, rows: Kind, layer: Kind, position: Kind | None = None) -> IndexRanges:
        """Return the valid layers, and the positions with room for the rows."""
        return {"layer": (0, cache.shape[0] - 1), "position": (0, cache.shape[2] - rows.shape[1])}

    def reference(self, cache: Array, rows: Array, layer: int, position: int = 0) -> tuple[Array, ...]:
        """Copy the cache and insert the rows, in the cache's element type."""
        grown = cache.copy()
        grown[layer, :, position : position + rows.shape[1]] = rows
        return (grown,)

    def cost(self, cache: Kind, rows: Kind, layer: Kind, position: Kind | None = None) -> Cost:
        """Count reading and writing the rows."""
        return Cost(bytes=moved(rows, rows))

    def lower(  # noqa: PLR0917 - its operands
        self, f: Builder, names: tuple[str, ...], cache: Value, rows: Value, layer: str, position: str = "0"
    ) -> list[Value]:
        """Emit an in-place ``tensor.insert_slice``."""
        return [cached.store_rows(f, cache, rows, layer=layer, position=position, name=names[0])]


@dataclass(frozen=True)
class CacheRowsOp:
    """Slice of the first `filled` rows of a layer: ``(L, H, P, D)`` to ``(H, n, D)``, n at most P."""

    name: ClassVar[str] = "cache_rows"
    gives: ClassVar[tuple[str, ...]] = ("past",)

    def infer(self, cache: Kind, layer: Kind, filled: Kind) -> Kinds:
        """Return a type with a dynamic number of rows."""
        need_tensors(cache=(cache, 4))
        need_index(layer=layer, filled=filled)
        _, heads, positions, depth = cache.shape
        return (Kind((heads, DynamicSize(positions, ""), depth)),)

    def index_ranges(self, cache: Kind, layer: Kind, filled: Kind) -> IndexRanges:
        """Return the valid layers, and a range of one row to all rows."""
        return {"layer": (0, cache.shape[0] - 1), "filled": (1, cache.shape[2])}

    def reference(self, cache: Array, layer: int, filled: int) -> tuple[Array, ...]:
        """Return the filled rows in float64."""
        return (reference.double(cache[layer, :, :filled]),)

    def cost(self, cache: Kind, layer: Kind, filled: Kind) -> Cost:
        """Return no cost: the result is a view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], cache: Value, layer: str, filled: str) -> list[Value]:
        """Emit a slice of dynamic size."""
        return [cached.rows_so_far(f, cache, layer, DynamicSize(cache.shape[2], filled), names[0])]
