r"""The core that processes of a crew measure on, one at a time, and that nothing else of the crew runs on meanwhile.

    core 0   1 compiles | 2 compiles            | 1 compiles ...
    core 1   2 compiles | 1 measures            | 2 measures ...
                         \_ 2 moves to core 0    \_ 1 moves to core 0

While nothing is measured, all compile wherever there is room: a trial mostly compiles, and a core that waited for
measurements alone would be idle most of the time.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock


class MeasuringCore:
    """Cores of a crew, of which the last is measured on.

    Attributes:
        cores: CPUs of the crew, two at least.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        """Begin with no process.

        Args:
            cores: CPUs of the crew, two at least.
        """
        self.cores = tuple(cores)
        self._turn = Lock()  # of whom measures
        self._pinning = Lock()
        self._processes: set[int] = set()
        self._measuring: int | None = None

    @property
    def core(self) -> int:
        """CPU that is measured on."""
        return self.cores[-1]

    @property
    def others(self) -> tuple[int, ...]:
        """CPUs that are left to all others while something is measured."""
        return self.cores[:-1]

    def enter(self, process: int) -> None:
        """Have a process keep off the core while another one measures, from now on."""
        with self._pinning:
            if process not in self._processes:
                self._processes.add(process)
                self._pin(process)

    def leave(self, process: int) -> None:
        """Forget a process that ends."""
        with self._pinning:
            self._processes.discard(process)

    @contextmanager
    def hold(self, process: int) -> Iterator[None]:
        """Give the core to a process alone, once it is free, until the block ends."""
        with self._turn:
            self._give(process)
            try:
                yield
            finally:
                self._give(None)

    def _give(self, process: int | None) -> None:
        with self._pinning:
            self._measuring = process
            for each in sorted(self._processes, key=lambda one: one == process):  # the others leave it first
                self._pin(each)

    def _pin(self, process: int) -> None:
        if self._measuring is None:
            keep_to(process, self.cores)
        else:
            keep_to(process, (self.core,) if process == self._measuring else self.others)


def keep_to(process: int, cores: Collection[int]) -> None:
    """Keep all threads of a process to some CPUs; of one that is gone, none."""
    done: set[int] = set()
    while fresh := threads_of(process) - done:  # one that moved may have started another meanwhile
        for thread in fresh:
            with suppress(OSError):
                os.sched_setaffinity(thread, cores)
        done |= fresh


def threads_of(process: int) -> set[int]:
    """Numbers of the threads of a process; none if it is gone."""
    try:
        return {int(path.name) for path in Path(f"/proc/{process}/task").iterdir()}
    except OSError:
        return set()


@contextmanager
def this_process_on(cores: Collection[int]) -> Iterator[None]:
    """Keep this process to some CPUs until the block ends, and what it starts meanwhile for good."""
    mine, whole = os.getpid(), os.sched_getaffinity(0)
    before = {thread: affinity for thread in threads_of(mine) if (affinity := affinity_of(thread))}
    keep_to(mine, cores)
    try:
        yield
    finally:
        keep_to(mine, whole)
        for thread, affinity in before.items():
            with suppress(OSError):
                os.sched_setaffinity(thread, affinity)


def affinity_of(thread: int) -> set[int]:
    """CPUs that a thread may run on; none if it is gone."""
    try:
        return os.sched_getaffinity(thread)
    except OSError:
        return set()
