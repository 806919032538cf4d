"""Shadow memory for race detection: it records the last accesses of each element.

Two accesses conflict if they are of different threads, at least one is a write, and no barrier of their block separates
them; accesses of different blocks are never separated. The result does not depend on the order in which threads run, so
that races are found that a driver hides by running threads in lockstep.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NOBODY, SEVERAL = 0, -1  # others are thread numbers from 1: pages of zeros are not allocated

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ThreadAccess:
    """The accesses of one operation.

    Attributes:
        elements: Linear index of each element in its memory.
        threads: Accessing thread, numbered over all blocks.
        blocks: Block of the thread.
        epochs: Number of barriers that the block has passed.
    """

    elements: Numbers
    threads: Numbers
    blocks: Numbers
    epochs: Numbers


@dataclass(frozen=True)
class Race:
    """Two conflicting accesses that no barrier orders.

    Attributes:
        element: Linear index of the element.
        threads: Numbers of the two threads; negative for one of several readers.
        writes: Whether both accesses are writes.
    """

    element: int
    threads: tuple[int, int]
    writes: bool


class Shadow:
    """The last writer and reader of each element of a memory.

    Args:
        size: Number of elements.
    """

    def __init__(self, size: int) -> None:
        self.writer, self.write_block, self.write_epoch = (np.zeros(size, np.int64) for _ in range(3))
        self.reader, self.read_block, self.read_epoch = (np.zeros(size, np.int64) for _ in range(3))

    @property
    def written(self) -> npt.NDArray[np.bool_]:
        """Mask of the elements that were written."""
        wrote: npt.NDArray[np.bool_] = self.writer != NOBODY
        return wrote

    def read(self, access: ThreadAccess) -> Race | None:
        """Record reads; return a race with an earlier write, if there is one."""
        at, threads = access.elements, access.threads + 1
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=False)
        last_reader, block = self.reader[at], self.read_block[at]
        is_exclusive = (last_reader == NOBODY) | (last_reader == threads)
        is_exclusive |= (block == access.blocks) & (self.read_epoch[at] != access.epochs)
        self.reader[at] = np.where(is_exclusive, threads, SEVERAL)
        clashing = at[self.reader[at] != np.where(is_exclusive, threads, SEVERAL)]
        self.reader[clashing] = SEVERAL
        same_block = (last_reader == NOBODY) | (block == access.blocks)
        self.read_block[at] = np.where(same_block, access.blocks, SEVERAL)
        self.read_block[at[(self.read_block[at] != access.blocks)]] = SEVERAL
        self.read_epoch[at] = access.epochs
        return race

    def write(self, access: ThreadAccess) -> Race | None:
        """Record writes; return a race with an earlier access, or between these writes, if there is one."""
        at, threads = access.elements, access.threads + 1
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=True)
        race = race or self.conflict(access, self.reader[at], self.read_block[at], self.read_epoch[at], writes=False)
        self.writer[at], self.write_block[at], self.write_epoch[at] = threads, access.blocks, access.epochs
        is_overwritten = self.writer[at] != threads
        return race or race_at(access, self.writer[at], is_overwritten, writes=True)

    def conflict(
        self, access: ThreadAccess, threads: Numbers, blocks: Numbers, epochs: Numbers, *, writes: bool
    ) -> Race | None:
        """Return a race with recorded accesses: those of another thread that no barrier separates."""
        is_other_thread = (threads != NOBODY) & (threads != access.threads + 1)
        unordered = (blocks != access.blocks) | (epochs == access.epochs)
        return race_at(access, threads, is_other_thread & unordered, writes=writes)


def race_at(access: ThreadAccess, others: Numbers, wrong: npt.NDArray[np.bool_], *, writes: bool) -> Race | None:
    """Return the first race among the accesses marked in `wrong`; `None` if there is none."""
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return Race(int(access.elements[first]), (int(access.threads[first]), int(others[first]) - 1), writes)
