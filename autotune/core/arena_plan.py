"""Offsets of buffers in one arena, planned from their lifetimes: buffers that are never live at once share memory.

Greedy by size with best fit, as in Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020 (arXiv 2001.03288), section 5.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True)
class Lifetime:
    """Size of a buffer, and the steps during which it is live.

    Attributes:
        bytes: Size of the buffer, in bytes.
        first: Step of the program at which it is first used.
        last: Step at which it is last used, `first` or later.
    """

    bytes: int
    first: int
    last: int

    @property
    def room(self) -> int:
        """Bytes that the buffer takes in an arena: its size rounded up to whole cache lines."""
        return -(-self.bytes // ALIGNMENT) * ALIGNMENT

    def meets(self, other: "Lifetime") -> bool:
        """Return whether the two lifetimes overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class BufferPlan:
    """Buffers with their offsets in the arena.

    Attributes:
        buffers: Buffers of the plan.
        offsets: Byte offset of each buffer in the arena, a multiple of `ALIGNMENT`; in the order of `buffers`.
        peak_bytes: Size of the arena in bytes.
        others: Number of operations outside the plan that allocate memory in every call.
    """

    buffers: tuple[Lifetime, ...] = ()
    offsets: tuple[int, ...] = ()
    peak_bytes: int = 0
    others: int = 0

    @property
    def naive_bytes(self) -> int:
        """Bytes that the buffers would take without sharing memory."""
        return sum(buffer.room for buffer in self.buffers)

    def to_json(self) -> dict[str, int]:
        """Return the plan's summary for manifests."""
        return {"count": len(self.buffers), "peak_bytes": self.peak_bytes, "naive_bytes": self.naive_bytes}

    def __str__(self) -> str:
        """Return a one-line summary.

        Example:
            >>> str(place([Lifetime(3 << 20, 0, 1), Lifetime(1 << 20, 1, 2), Lifetime(2 << 20, 2, 3)]))
            'buffers: 3, peak 4 MiB, separately 6 MiB'
        """
        peak, naive = self.peak_bytes / 2**20, self.naive_bytes / 2**20
        more = f", {self.others} more allocated in every call" if self.others else ""
        return f"buffers: {len(self.buffers)}, peak {peak:.4g} MiB, separately {naive:.4g} MiB{more}"


def place(buffers: Sequence[Lifetime]) -> BufferPlan:
    """Assign an offset to every buffer, the largest first, each in the smallest gap that fits it.

    Buffers that are live at a common step do not overlap.

    Example:
        >>> place([Lifetime(100, 0, 1), Lifetime(64, 1, 2), Lifetime(128, 2, 3)]).offsets
        (0, 128, 0)
    """
    offsets: dict[int, int] = {}
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].room, buffers[i].first, i)):
        mine = buffers[index]
        occupied = [(offsets[i], offsets[i] + buffers[i].room) for i in offsets if mine.meets(buffers[i])]
        offsets[index] = best_gap(mine.room, sorted(occupied))
    peak = max((offset + buffers[i].room for i, offset in offsets.items()), default=0)
    return BufferPlan(tuple(buffers), tuple(offsets[i] for i in range(len(buffers))), peak)


def best_gap(room: int, occupied: Iterable[tuple[int, int]]) -> int:
    """Return the start of the smallest gap of at least `room` bytes between sorted ranges, else the end of the last."""
    end, best = 0, None
    for start, stop in occupied:
        if start - end >= room and (best is None or start - end < best[0]):
            best = (start - end, end)
        end = max(end, stop)
    return end if best is None else best[1]
