"""Where buffers lie in one arena: offsets planned from lifetimes, so that buffers never live at once share memory.

Greedy by size with the best-fitting gap, as in Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural
Net Inference", 2020 (arXiv 2001.03288), section 5.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True)
class Lifetime:
    """Size of a buffer, and the steps over which it lives.

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
        """Bytes it takes in an arena: its size rounded up to whole cache lines."""
        return -(-self.bytes // ALIGNMENT) * ALIGNMENT

    def meets(self, other: "Lifetime") -> bool:
        """Return whether there is a step at which both live."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class BufferPlan:
    """Buffers with their offsets in the arena.

    Attributes:
        buffers: Buffers that are placed.
        offsets: Byte in the arena at which each begins, a multiple of `ALIGNMENT`; in the order of `buffers`.
        peak_bytes: Size of the arena.
        others: Number of operations outside the plan that allocate memory in every call.
    """

    buffers: tuple[Lifetime, ...] = ()
    offsets: tuple[int, ...] = ()
    peak_bytes: int = 0
    others: int = 0

    @property
    def naive_bytes(self) -> int:
        """What they would take if each had memory of its own."""
        return sum(buffer.room for buffer in self.buffers)

    def to_json(self) -> dict[str, int]:
        """Three numbers, as manifests keep them."""
        return {"count": len(self.buffers), "peak_bytes": self.peak_bytes, "naive_bytes": self.naive_bytes}

    def __str__(self) -> str:
        """One line for people.

        Example:
            >>> str(place([Lifetime(3 << 20, 0, 1), Lifetime(1 << 20, 1, 2), Lifetime(2 << 20, 2, 3)]))
            'buffers: 3, peak 4 MiB, separately 6 MiB'
        """
        peak, naive = self.peak_bytes / 2**20, self.naive_bytes / 2**20
        more = f", {self.others} more allocated in every call" if self.others else ""
        return f"buffers: {len(self.buffers)}, peak {peak:.4g} MiB, separately {naive:.4g} MiB{more}"


def place(buffers: Sequence[Lifetime]) -> BufferPlan:
    """Give every buffer an offset, the largest first, each in the smallest gap that takes it.

    Buffers that live at a common step get offsets that do not overlap.

    Example:
        >>> place([Lifetime(100, 0, 1), Lifetime(64, 1, 2), Lifetime(128, 2, 3)]).offsets
        (0, 128, 0)
    """
    offsets: dict[int, int] = {}
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].room, buffers[i].first, i)):
        mine = buffers[index]
        taken = [(offsets[i], offsets[i] + buffers[i].room) for i in offsets if mine.meets(buffers[i])]
        offsets[index] = best_gap(mine.room, sorted(taken))
    peak = max((offset + buffers[i].room for i, offset in offsets.items()), default=0)
    return BufferPlan(tuple(buffers), tuple(offsets[i] for i in range(len(buffers))), peak)


def best_gap(room: int, taken: Iterable[tuple[int, int]]) -> int:
    """Start of the smallest gap of at least `room` bytes between sorted ranges; behind the last where there is none."""
    end, best = 0, None
    for start, stop in taken:
        if start - end >= room and (best is None or start - end < best[0]):
            best = (start - end, end)
        end = max(end, stop)
    return end if best is None else best[1]
