"""Memory that remembers who touched it: what two threads may do to one element between two barriers.

Two accesses conflict if they are of different threads, one of them writes, and no barrier of their block lies between
them; threads of different blocks have none. In what order threads happen to run plays no part, so that what a driver
runs in lockstep is found, too.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NOBODY, SEVERAL = -1, -2

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
        threads: Two threads; `SEVERAL` for one of those that read.
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
        self.writer = np.full(size, NOBODY, np.int64)
        self.write_block = np.full(size, NOBODY, np.int64)
        self.write_epoch = np.full(size, NOBODY, np.int64)
        self.reader = np.full(size, NOBODY, np.int64)
        self.read_block = np.full(size, NOBODY, np.int64)
        self.read_epoch = np.full(size, NOBODY, np.int64)

    def read(self, access: ThreadAccess) -> Race | None:
        """Note that threads read; gives a race with who wrote, if there is one."""
        at = access.elements
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=False)
        before, block = self.reader[at], self.read_block[at]
        alone = (before == NOBODY) | (before == access.threads)
        alone |= (block == access.blocks) & (self.read_epoch[at] != access.epochs)
        self.reader[at] = np.where(alone, access.threads, SEVERAL)
        beside = at[self.reader[at] != np.where(alone, access.threads, SEVERAL)]
        self.reader[beside] = SEVERAL
        one = (block == NOBODY) | (block == access.blocks)
        self.read_block[at] = np.where(one, access.blocks, SEVERAL)
        self.read_block[at[(self.read_block[at] != access.blocks)]] = SEVERAL
        self.read_epoch[at] = access.epochs
        return race

    def write(self, access: ThreadAccess) -> Race | None:
        """Note that threads write; gives a race with who wrote or read, if there is one."""
        at = access.elements
        race = self.conflict(access, self.writer[at], self.write_block[at], self.write_epoch[at], writes=True)
        race = race or self.conflict(access, self.reader[at], self.read_block[at], self.read_epoch[at], writes=False)
        self.writer[at], self.write_block[at], self.write_epoch[at] = access.threads, access.blocks, access.epochs
        together = self.writer[at] != access.threads
        return race or race_at(access, self.writer[at], together, writes=True)

    def conflict(
        self, access: ThreadAccess, threads: Numbers, blocks: Numbers, epochs: Numbers, *, writes: bool
    ) -> Race | None:
        """A race of accesses with those before, where another thread was there since the last barrier."""
        other = (threads != NOBODY) & (threads != access.threads)
        unordered = (blocks != access.blocks) | (epochs == access.epochs)
        return race_at(access, threads, other & unordered, writes=writes)


def race_at(access: ThreadAccess, others: Numbers, wrong: npt.NDArray[np.bool_], *, writes: bool) -> Race | None:
    """The first race among accesses; `None` where none is wrong."""
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return Race(int(access.elements[first]), (int(access.threads[first]), int(others[first])), writes)
