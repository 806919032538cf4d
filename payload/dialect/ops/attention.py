"""Attention, and conversions between the columns of a projection and heads.

Sizes: T tokens, C columns, H query heads, G groups (heads of keys and values), D columns of a head, S keys.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from payload import cached, ops, reference, rowwise
from payload.builder import Builder, Value
from payload.dialect.op import Cost, Kind, Kinds, moved, need, need_index, need_tensors
from payload.reference import Array
from payload.rowwise import seen_pairs


@dataclass(frozen=True)
class SplitHeadsOp:
    """Split of concatenated queries, keys and values: ``(T, (H + 2 G) D)`` to ``(H, T, D)`` and two ``(G, T, D)``.

    Attributes:
        heads: Number of query heads, H.
        groups: Number of key and value heads, G, each shared by H / G query heads; 0 for H.
        sequences: Number of sequences B if each row is the newest token of a sequence: ``(B, ...)`` to
            ``(B H, 1, D)``; 0 if the rows are the tokens of one sequence.
    """

    name: ClassVar[str] = "split_heads"
    gives: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    heads: int
    groups: int = 0
    sequences: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of heads of queries, keys and values."""
        groups = self.groups or self.heads
        return self.heads, groups, groups

    def depth(self, qkv: Kind | Value) -> int:
        """Return the number of columns of a head, D."""
        return qkv.shape[1] // sum(self.counts)

    def infer(self, qkv: Kind) -> Kinds:
        """Return the types of the heads of queries, keys and values."""
        need_tensors(qkv=(qkv, 2))
        heads, groups, _ = self.counts
        need(heads > 0 and groups > 0, f"heads and groups must be at least 1, got {heads} and {groups}")
        need(heads % groups == 0, f"groups must divide heads, got {groups} and {heads}; leave groups out for {heads}")
        need(
            qkv.shape[1] % sum(self.counts) == 0,
            f"heads must divide the columns of qkv, {heads} + 2 x {groups} heads do not divide {qkv}",
        )
        need(
            self.sequences in (0, qkv.shape[0]),
            f"sequences must be 0, or the rows of qkv, got {self.sequences} and qkv is {qkv}",
        )
        return tuple(Kind(self.shape(qkv, count)) for count in self.counts)

    def shape(self, qkv: Kind | Value, count: int) -> tuple[int, int, int]:
        """Return the shape of `count` heads."""
        rows = qkv.shape[0]
        return (rows * count, 1, self.depth(qkv)) if self.sequences else (count, rows, self.depth(qkv))

    def reference(self, qkv: Array) -> tuple[Array, ...]:
        """Split columns into heads."""
        heads, groups, _ = self.counts
        depth = qkv.shape[1] // sum(self.counts)
        parts = np.split(reference.double(qkv), [heads * depth, (heads + groups) * depth], axis=1)
        if self.sequences:
            return tuple(part.reshape(-1, 1, depth) for part in parts)
        return tuple(reference.split_heads(part, count) for part, count in zip(parts, self.counts, strict=True))

    def cost(self, qkv: Kind) -> Cost:
        """Count memory traffic only; there is no arithmetic."""
        return Cost(bytes=moved(qkv, qkv))

    def lower(self, f: Builder, names: tuple[str, ...], qkv: Value) -> list[Value]:
        """Emit slices of the columns, each transposed, or reshaped where rows are sequences."""
        depth, flats, start = self.depth(qkv), [], 0
        for name, count in zip(names, self.counts, strict=True):
            flats.append(ops.take_columns(f, qkv, start, count * depth, f"{name}_flat"))
            start += count * depth
        parts = list(zip(flats, names, self.counts, strict=True))
        if self.sequences:
            return [cached.reshape(f, flat, self.shape(qkv, count), name) for flat, name, count in parts]
        return [ops.split_heads(f, flat, count, name) for flat, name, count in parts]


@dataclass(frozen=True)
class AttentionOp:
    """Attention, ``softmax(q k^T / sqrt(D)) v`` of every head: ``(H, T, D)`` and two ``(G, S, D)`` to ``(H, T, D)``.

    G divides H: H / G adjacent query heads share a head of keys and values (Ainslie et al., 2023).

    Attributes:
        causal: Whether token t attends to keys 0 to t only.
    """

    name: ClassVar[str] = "attention"
    gives: ClassVar[tuple[str, ...]] = ("attention",)
    causal: bool = False

    def infer(self, q: Kind, k: Kind, v: Kind) -> Kinds:
        """Return the type of q."""
        need_tensors(q=(q, 3), k=(k, 3), v=(v, 3))
        need(k.shape == v.shape, f"k and v must be of one shape, k is {k} and v is {v}")
        need(q.shape[2] == k.shape[2], f"q and k must have heads of one width, q is {q} and k is {k}")
        need(q.shape[0] % k.shape[0] == 0, f"heads of k must divide those of q, q is {q} and k is {k}")
        need(
            not self.causal or q.shape[1] == k.shape[1],
            f"causal attention must have a key a query, q is {q} and k is {k}; leave causal out",
        )
        return (q,)

    def reference(self, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
        """Compute attention of every head; keys and values are repeated for the query heads that share them."""
        shared = len(q) // len(k)
        return (reference.attention(q, np.repeat(k, shared, axis=0), np.repeat(v, shared, axis=0), self.causal),)

    def cost(self, q: Kind, k: Kind, v: Kind) -> Cost:
        """Count two products over the unmasked pairs, and softmax with five operations per pair."""
        heads, rows, depth = q.shape
        pairs = heads * (seen_pairs(rows) if self.causal else rows * k.shape[1])
        return Cost(4 * pairs * depth, 5 * pairs, moved(q, k, v, q), max(k.shape[1], depth))

    def lower(self, f: Builder, names: tuple[str, ...], q: Value, k: Value, v: Value) -> list[Value]:
        """Emit scores, mask, exponentials, row sums, the product with v, and the division by the sums."""
        if q.shape[0] == k.shape[0]:
            return [rowwise.attention(f, q, k, v, names[0], causal=self.causal)]
        return [rowwise.grouped_attention(f, q, k, v, names[0], causal=self.causal)]


@dataclass(frozen=True)
class MergeHeadsOp:
    """Concatenation of heads: ``(H, T, D)`` to ``(T, H D)``.

    Attributes:
        sequences: Number of sequences B of one token each: ``(B H, 1, D)`` to ``(B, H D)``; 0 for one sequence.
    """

    name: ClassVar[str] = "merge_heads"
    gives: ClassVar[tuple[str, ...]] = ("merged",)
    sequences: int = 0

    def infer(self, x: Kind) -> Kinds:
        """Return the type of one row per token."""
        need_tensors(x=(x, 3))
        heads, rows, depth = x.shape
        if not self.sequences:
            return (Kind((rows, heads * depth)),)
        need(
            self.sequences > 0 and heads % self.sequences == 0 and rows == 1,
            f"sequences must divide the heads of x, a token each, got {self.sequences} and x is {x}",
        )
        return (Kind((self.sequences, heads * depth // self.sequences)),)

    def reference(self, x: Array) -> tuple[Array, ...]:
        """Merge heads into columns."""
        return (x.reshape(self.sequences, -1) if self.sequences else reference.merge_heads(x),)

    def cost(self, x: Kind) -> Cost:
        """Count memory traffic only; there is no arithmetic."""
        return Cost(bytes=moved(x, x))

    def lower(self, f: Builder, names: tuple[str, ...], x: Value) -> list[Value]:
        """Emit a transpose and a reshape, or the reshape alone for several sequences."""
        (y,) = self.infer(Kind(x.shape))
        return [cached.reshape(f, x, y.shape, names[0]) if self.sequences else ops.merge_heads(f, x, names[0])]


@dataclass(frozen=True)
class RopeOp:
    """Rotary position embedding of ``(H, T, D)``; the first row has position 0, or the one given as operand.

    Column j of the first half is paired with column j of the second (Su et al., 2021).
    """

    name: ClassVar[str] = "rope"
    gives: ClassVar[tuple[str, ...]] = ("turned",)

    def infer(self, x: Kind, position: Kind | None = None) -> Kinds:
        """Return the type of x."""
        need_tensors(x=(x, 3))
        need_index(position=position)
        need(x.shape[2] % 2 == 0, f"x must have heads of an even width, it is {x}")
        return (x,)

    def reference(self, x: Array, position: int = 0) -> tuple[Array, ...]:
        """Rotate pairs of columns."""
        return (reference.rotate(x, position),)

    def cost(self, x: Kind, position: Kind | None = None) -> Cost:
        """Count three operations per element; the angles are negligible."""
        return Cost(others=3 * x.shape[0] * x.shape[1] * x.shape[2], bytes=moved(x, x))

    def lower(self, f: Builder, names: tuple[str, ...], x: Value, position: str | None = None) -> list[Value]:
        """Emit the angles and one elementwise op."""
        return [cached.rotate(f, x, position, names[0])]
