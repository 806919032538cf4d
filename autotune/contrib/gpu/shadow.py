"""Memory that remembers who touched it: what two threads may do to one element between two barriers.

Two accesses conflict if they are of different threads, one of them writes, and no barrier of their block lies between
them; threads of different blocks have none. In what order threads happen to run plays no part, so that what a driver
runs in lockstep is found, too.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NOBODY, SEVERAL = 0, -1  # others are the number of a thread, from 1: untouched memory of zeros takes no room

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ThreadAccess:
    """Elements that threads touch at one op.

    Attributes:
        elements: Number of each element in its memory.
        threads: Thread that touches it, counted over all blocks.
        blocks: Block of the thread.
        epochs: Barriers that the block has passed.
    """

    elements: Numbers
    threads: Numbers
    blocks: Numbers
    epochs: Numbers


@dataclass(frozen=True)
class Race:
    """Two accesses of which one must have come first, and nothing says which.

    Attributes:
        element: Number of the element.
        threads: Numbers of two threads; below 0 for one of several that read.
        writes: Whether both write.
    """

    element: int
    threads: tuple[int, int]
    writes: bool


class Shadow:
    """Who touched each element of a memory last.

    Args:
        size: Number of elements.
    """

    def __init__(self, size: int) -> None:
        self.writer, self.write_block, self.write_epoch = (np.zeros(size, np.int64) for _ in range(3))
        self.reader, self.read_block, self.read_epoch = (np.zeros(size, np.int64) for _ in range(3))

    @property
    def written(self) -> npt.NDArray[np.bool_]:
        """Which elements some thread wrote."""
        wrote: npt.NDArray[np.bool_] = self.writer != NOBODY
        return wrote

    def read(self, access: ThreadAccess) -> Race | None:
        """Note that threads read; gives a race with who wrote, if there is one."""
        at, threads = access.elements, access.threads + 1
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=False)
        before, block = self.reader[at], self.read_block[at]
        alone = (before == NOBODY) | (before == threads)
        alone |= (block == access.blocks) & (self.read_epoch[at] != access.epochs)
        self.reader[at] = np.where(alone, threads, SEVERAL)
        beside = at[self.reader[at] != np.where(alone, threads, SEVERAL)]
        self.reader[beside] = SEVERAL
        one = (before == NOBODY) | (block == access.blocks)
        self.read_block[at] = np.where(one, access.blocks, SEVERAL)
        self.read_block[at[(self.read_block[at] != access.blocks)]] = SEVERAL
        self.read_epoch[at] = access.epochs
        return race

    def write(self, access: ThreadAccess) -> Race | None:
        """Note that threads write; gives a race with who wrote or read, if there is one."""
        at, threads = access.elements, access.threads + 1
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=True)
        race = race or self.conflict(access, self.reader[at], self.read_block[at], self.read_epoch[at], writes=False)
        self.writer[at], self.write_block[at], self.write_epoch[at] = threads, access.blocks, access.epochs
        together = self.writer[at] != threads
        return race or race_at(access, self.writer[at], together, writes=True)

    def conflict(
        self, access: ThreadAccess, threads: Numbers, blocks: Numbers, epochs: Numbers, *, writes: bool
    ) -> Race | None:
        """A race of accesses with those before, where another thread was there since the last barrier."""
        other = (threads != NOBODY) & (threads != access.threads + 1)
        unordered = (blocks != access.blocks) | (epochs == access.epochs)
        return race_at(access, threads, other & unordered, writes=writes)


def race_at(access: ThreadAccess, others: Numbers, wrong: npt.NDArray[np.bool_], *, writes: bool) -> Race | None:
    """The first race among accesses; `None` where none is wrong."""
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return Race(int(access.elements[first]), (int(access.threads[first]), int(others[first]) - 1), writes)
