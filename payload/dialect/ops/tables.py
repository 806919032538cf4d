"""Rows of tables, and the numbers that say which."""

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
    """Rows of a table ``(V, C)`` at ids ``(T)`` of i32: ``(T, C)``."""

    name: ClassVar[str] = "embedding"
    gives: ClassVar[tuple[str, ...]] = ("embedded",)
    restores: ClassVar[bool] = True

    def infer(self, table: Kind, ids: Kind) -> Kinds:
        """A row an id."""
        need_tensors(FLOATS, table=(table, 2))
        need_tensors(("i32",), ids=(ids, 1))
        return (Kind((ids.shape[0], table.shape[1])),)

    def index_ranges(self, table: Kind, ids: Kind) -> IndexRanges:
        """Ids are rows of the table."""
        return {"ids": (0, table.shape[0] - 1)}

    def reference(self, table: Array, ids: Array) -> tuple[Array, ...]:
        """The rows."""
        return (reference.embed(table, ids),)

    def cost(self, table: Kind, ids: Kind) -> Cost:
        """No arithmetic; of the table what is read."""
        (y,) = self.infer(table, ids)
        return Cost(bytes=moved(ids, y, Kind(y.shape, table.dtype)))

    def lower(self, f: Builder, names: tuple[str, ...], table: Value, ids: Value) -> list[Value]:
        """A gather."""
        return [rowwise.embed(f, table, ids, names[0], table.scale if isinstance(table, Restored) else None)]


@dataclass(frozen=True)
class RowsOp:
    """The first rows of a table: ``(P, C)`` to ``(count, C)``.

    Attributes:
        count: Number of rows.
    """

    name: ClassVar[str] = "rows"
    gives: ClassVar[tuple[str, ...]] = ("rows",)
    count: int

    def infer(self, table: Kind) -> Kinds:
        """So many rows."""
        need_tensors(table=(table, 2))
        rows = table.shape[0]
        need(1 <= self.count <= rows, f"count must be from 1 to the rows of table, got {self.count} of {table}")
        return (Kind((self.count, table.shape[1])),)

    def reference(self, table: Array) -> tuple[Array, ...]:
        """The rows."""
        return (reference.double(table[: self.count]),)

    def cost(self, table: Kind) -> Cost:
        """A view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], table: Value) -> list[Value]:
        """A slice."""
        return [ops.take_rows(f, table, self.count, names[0])]


@dataclass(frozen=True)
class RowOp:
    """One row of a table, at an index: ``(P, C)`` to ``(C)``."""

    name: ClassVar[str] = "row"
    gives: ClassVar[tuple[str, ...]] = ("row",)

    def infer(self, table: Kind, at: Kind) -> Kinds:
        """A row."""
        need_tensors(table=(table, 2))
        need_index(at=at)
        return (Kind(table.shape[1:]),)

    def index_ranges(self, table: Kind, at: Kind) -> IndexRanges:
        """One of the rows."""
        return {"at": (0, table.shape[0] - 1)}

    def reference(self, table: Array, at: int) -> tuple[Array, ...]:
        """The row."""
        return (reference.double(table[at]),)

    def cost(self, table: Kind, at: Kind) -> Cost:
        """A view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], table: Value, at: str) -> list[Value]:
        """A slice."""
        return [cached.row_at(f, table, at, names[0])]


@dataclass(frozen=True)
class AsRowOp:
    """A row as a matrix of one: ``(C)`` to ``(1, C)``."""

    name: ClassVar[str] = "as_row"
    gives: ClassVar[tuple[str, ...]] = ("row",)

    def infer(self, x: Kind) -> Kinds:
        """One row."""
        need_tensors(x=(x, 1))
        return (Kind((1, *x.shape)),)

    def reference(self, x: Array) -> tuple[Array, ...]:
        """One row."""
        return (reference.double(x)[None],)

    def cost(self, x: Kind) -> Cost:
        """A view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], x: Value) -> list[Value]:
        """A reshape."""
        return [cached.reshape(f, x, (1, *x.shape), names[0])]


@dataclass(frozen=True)
class LayerOp:
    """What one layer has of stacked weights: ``(L, ...)`` to ``(...)``."""

    name: ClassVar[str] = "layer"
    gives: ClassVar[tuple[str, ...]] = ("here",)

    def infer(self, stacked: Kind, layer: Kind) -> Kinds:
        """All sizes but the first."""
        need_index(layer=layer)
        need(stacked != INDEX and stacked.rank > 1, f"stacked must have 2 dimensions or more, it is {stacked}")
        return (Kind(stacked.shape[1:], stacked.dtype),)

    def index_ranges(self, stacked: Kind, layer: Kind) -> IndexRanges:
        """One of the layers."""
        return {"layer": (0, stacked.shape[0] - 1)}

    def reference(self, stacked: Array, layer: int) -> tuple[Array, ...]:
        """A layer's part."""
        return (stacked[layer],)

    def cost(self, stacked: Kind, layer: Kind) -> Cost:
        """A view."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], stacked: Value, layer: str) -> list[Value]:
        """A slice."""
        return [ops.take_layer(f, stacked, layer, names[0])]


@dataclass(frozen=True)
class IndexOp:
    """The index that a tensor ``(1)`` of i64 holds, such as a position or a length."""

    name: ClassVar[str] = "index"
    gives: ClassVar[tuple[str, ...]] = ("place",)

    def infer(self, number: Kind) -> Kinds:
        """An index."""
        need_tensors(("i64",), number=(number, 1))
        need(number.shape == (1,), f"number must have one element, it is {number}")
        return (INDEX,)

    def reference(self, number: Array) -> tuple[int, ...]:
        """The number."""
        return (int(number[0]),)

    def cost(self, number: Kind) -> Cost:
        """Nothing that counts."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], number: Value) -> list[str]:
        """An element, cast."""
        return [cached.read_index(f, number, names[0])]


@dataclass(frozen=True)
class ShiftOp:
    """An index, and so many more.

    Attributes:
        by: Number that is added.
    """

    name: ClassVar[str] = "shift"
    gives: ClassVar[tuple[str, ...]] = ("shifted",)
    by: int

    def infer(self, index: Kind) -> Kinds:
        """An index."""
        need_index(index=index)
        return (INDEX,)

    def reference(self, index: int) -> tuple[int, ...]:
        """The sum."""
        return (index + self.by,)

    def cost(self, index: Kind) -> Cost:
        """Nothing that counts."""
        return Cost()

    def lower(self, f: Builder, names: tuple[str, ...], index: str) -> list[str]:
        """An addition."""
        return [cached.add_index(f, index, self.by, names[0])]
