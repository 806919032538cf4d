"""Lookups in tables and stacked weights, and the index arithmetic for them."""

from dataclasses import dataclass
from typing import ClassVar

from payload import cached, ops, reference, rowwise
from payload.builder import Builder, Value
from payload.dialect.op import (
    FLOATS,
    INDEX,
    Cost,
    IndexRanges,
    Kind,
    Kinds,
    Restored,
    moved,
    need,
    need_index,
    need_tensors,
)
from payload.reference import Array


@dataclass(frozen=True)
class EmbeddingOp:
    """Gather of rows of a table ``(V, C)`` at i32 ids ``(T)``: ``(T, C)``."""

    name: ClassVar[str] = "embedding"
    gives: ClassVar[tuple[str, ...]] = ("embedded",)
    restores: ClassVar[bool] = True

    def infer(self, table: Kind, ids: Kind) -> Kinds:
        """Return the type of one row per id."""
        need_tensors(FLOATS, table=(table, 2))
        need_tensors(("i32",), ids=(ids, 1))
        return (Kind((ids.shape[0], table.shape[1])),)

    def index_ranges(self, table: Kind, ids: Kind) -> IndexRanges:
        """Return the valid ids: the rows of the table."""
        return {"ids": (0, table.shape[0] - 1)}

    def reference(self, table: Array, ids: Array) -> tuple[Array, ...]:
        """Gather the rows."""
        return (reference.embed(table, ids),)

    def cost(self, table: Kind, ids: Kind) -> Cost:
        """Count memory traffic only; of the table, the rows that are read."""
        (y,) = self.infer(table, ids)
        return Cost(bytes=moved(ids, y, Kind(y.shape, table.dtype)))

    def lower(self, f: Builder, names: tuple[str, ...], table: Value, ids: Value) -> list[Value]:
        """Emit a gather."""
        return [rowwise.embed(f, table, ids, names[0], table.scale if isinstance(table, Restored) else None)]


@dataclass(frozen=True)
class RowsOp:
    """Slice of the first rows of a table: ``(P, C)`` to ``(count, C)``.

    Attributes:
        count: Number of rows.
    """

    name: ClassVar[str] = "rows"
    gives: ClassVar[tuple[str, ...]] = ("rows",)
    count: int

    def infer(self, table: Kind) -> Kinds:
        """Return the type of `count` rows."""
        need_tensors(table=(table, 2))
        rows = table.shape[0]
        need(1 <= self.count <= rows, f"count must be from 1 to the rows of table, got {self.count} of {table}")
        return (Kind((self.count, table.shape[1])),)

    def reference(self, table: Array) -> tuple[Array, ...]:
        """Return the first rows."""
        return (reference.double(table[: self.count]),)

    def cost(self, table: Kind) -> Cost:
        """Return no cost: the result is a view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], table: Value) -> list[Value]:
        """Emit a slice."""
        return [ops.take_rows(f, table, self.count, names[0])]


@dataclass(frozen=True)
class RowOp:
    """Slice of the row of a table at an index: ``(P, C)`` to ``(C)``."""

    name: ClassVar[str] = "row"
    gives: ClassVar[tuple[str, ...]] = ("row",)

    def infer(self, table: Kind, at: Kind) -> Kinds:
        """Return the type of a row."""
        need_tensors(table=(table, 2))
        need_index(at=at)
        return (Kind(table.shape[1:]),)

    def index_ranges(self, table: Kind, at: Kind) -> IndexRanges:
        """Return the valid rows."""
        return {"at": (0, table.shape[0] - 1)}

    def reference(self, table: Array, at: int) -> tuple[Array, ...]:
        """Return the row."""
        return (reference.double(table[at]),)

    def cost(self, table: Kind, at: Kind) -> Cost:
        """Return no cost: the result is a view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], table: Value, at: str) -> list[Value]:
        """Emit a slice."""
        return [cached.row_at(f, table, at, names[0])]


@dataclass(frozen=True)
class AsRowOp:
    """Reshape of a vector to a matrix of one row: ``(C)`` to ``(1, C)``."""

    name: ClassVar[str] = "as_row"
    gives: ClassVar[tuple[str, ...]] = ("row",)

    def infer(self, x: Kind) -> Kinds:
        """Return the type of a matrix of one row."""
        need_tensors(x=(x, 1))
        return (Kind((1, *x.shape)),)

    def reference(self, x: Array) -> tuple[Array, ...]:
        """Add a leading unit dimension."""
        return (reference.double(x)[None],)

    def cost(self, x: Kind) -> Cost:
        """Return no cost: the result is a view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], x: Value) -> list[Value]:
        """Emit a reshape."""
        return [cached.reshape(f, x, (1, *x.shape), names[0])]


@dataclass(frozen=True)
class LayerOp:
    """Slice of one layer from stacked weights: ``(L, ...)`` to ``(...)``."""

    name: ClassVar[str] = "layer"
    gives: ClassVar[tuple[str, ...]] = ("here",)

    def infer(self, stacked: Kind, layer: Kind) -> Kinds:
        """Return the type without the leading dimension."""
        need_index(layer=layer)
        need(stacked != INDEX and stacked.rank > 1, f"stacked must have 2 dimensions or more, it is {stacked}")
        return (Kind(stacked.shape[1:], stacked.dtype),)

    def index_ranges(self, stacked: Kind, layer: Kind) -> IndexRanges:
        """Return the valid layers."""
        return {"layer": (0, stacked.shape[0] - 1)}

    def reference(self, stacked: Array, layer: int) -> tuple[Array, ...]:
        """Return the slice of a layer."""
        return (stacked[layer],)

    def cost(self, stacked: Kind, layer: Kind) -> Cost:
        """Return no cost: the result is a view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], stacked: Value, layer: str) -> list[Value]:
        """Emit a slice."""
        return [ops.take_layer(f, stacked, layer, names[0])]


@dataclass(frozen=True)
class IndexOp:
    """Conversion of an i64 tensor ``(1)``, such as a position or a length, to an index."""

    name: ClassVar[str] = "index"
    gives: ClassVar[tuple[str, ...]] = ("place",)

    def infer(self, number: Kind) -> Kinds:
        """Return the index type."""
        need_tensors(("i64",), number=(number, 1))
        need(number.shape == (1,), f"number must have one element, it is {number}")
        return (INDEX,)

    def reference(self, number: Array) -> tuple[int, ...]:
        """Return the element as an int."""
        return (int(number[0]),)

    def cost(self, number: Kind) -> Cost:
        """Return no cost: it is negligible."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], number: Value) -> list[str]:
        """Emit an element read and a cast to index."""
        return [cached.read_index(f, number, names[0])]


@dataclass(frozen=True)
class ShiftOp:
    """Addition of a constant to an index.

    Attributes:
        by: Constant to add.
    """

    name: ClassVar[str] = "shift"
    gives: ClassVar[tuple[str, ...]] = ("shifted",)
    by: int

    def infer(self, index: Kind) -> Kinds:
        """Return the index type."""
        need_index(index=index)
        return (INDEX,)

    def reference(self, index: int) -> tuple[int, ...]:
        """Return the sum."""
        return (index + self.by,)

    def cost(self, index: Kind) -> Cost:
        """Return no cost: it is negligible."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], index: str) -> list[str]:
        """Emit an addition."""
        return [cached.add_index(f, index, self.by, names[0])]
