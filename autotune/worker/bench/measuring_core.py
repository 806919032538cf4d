r"""Measuring core of a pool: its workers measure on it one at a time, while all other workers are kept off it.

    core 0   1 compiles | 2 compiles            | 1 compiles ...
    core 1   2 compiles | 1 measures            | 2 measures ...
                         \_ 2 moves to core 0    \_ 1 moves to core 0

While nothing is measured, workers compile on all cores: a trial spends most of its time compiling, and a core reserved
for measurements would be idle most of the time.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock


class MeasuringCore:
    """CPU affinity of a pool's processes; the last of its cores is measured on.

    Attributes:
        cores: CPUs of the pool, at least two.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        """Start without processes.

        Args:
            cores: CPUs of the pool, at least two.
        """
        self.cores = tuple(cores)
        self._turn = Lock()  # held by the measuring worker
        self._pinning = Lock()
        self._processes: set[int] = set()
        self._measuring: int | None = None

    @property
    def core(self) -> int:
        """The CPU that is measured on."""
        return self.cores[-1]

    @property
    def others(self) -> tuple[int, ...]:
        """The CPUs that all other processes use during a measurement."""
        return self.cores[:-1]

    def enter(self, process: int) -> None:
        """Add a process, which is kept off the core while another one measures."""
        with self._pinning:
            if process not in self._processes:
                self._processes.add(process)
                self._pin(process)

    def leave(self, process: int) -> None:
        """Remove a process that ends."""
        with self._pinning:
            self._processes.discard(process)

    @contextmanager
    def hold(self, process: int) -> Iterator[None]:
        """Wait for the core, and reserve it for a process until the block ends."""
        with self._turn:
            self._give(process)
            try:
                yield
            finally:
                self._give(None)

    def _give(self, process: int | None) -> None:
        with self._pinning:
            self._measuring = process
            for each in sorted(
                self._processes, key=lambda other: other == process
            ):  # move the others off the core first
                self._pin(each)

    def _pin(self, process: int) -> None:
        if self._measuring is None:
            keep_to(process, self.cores)
        else:
            keep_to(process, (self.core,) if process == self._measuring else self.others)


def keep_to(process: int, cores: Collection[int]) -> None:
    """Set the CPU affinity of all threads of a process; do nothing if it is gone."""
    done: set[int] = set()
    while fresh := threads_of(process) - done:  # a thread may have started another one meanwhile
        for thread in fresh:
            with suppress(OSError):
                os.sched_setaffinity(thread, cores)
        done |= fresh


def threads_of(process: int) -> set[int]:
    """Return the identifiers of a process's threads; an empty set if it is gone."""
    try:
        return {int(path.name) for path in Path(f"/proc/{process}/task").iterdir()}
    except OSError:
        return set()


@contextmanager
def this_process_on(cores: Collection[int]) -> Iterator[None]:
    """Restrict this process to some CPUs until the block ends; children started meanwhile stay restricted."""
    process, whole = os.getpid(), os.sched_getaffinity(0)
    before = {thread: affinity for thread in threads_of(process) if (affinity := affinity_of(thread))}
    keep_to(process, cores)
    try:
        yield
    finally:
        keep_to(process, whole)
        for thread, affinity in before.items():
            with suppress(OSError):
                os.sched_setaffinity(thread, affinity)


def affinity_of(thread: int) -> set[int]:
    """Return the CPUs that a thread may run on; an empty set if it is gone."""
    try:
        return os.sched_getaffinity(thread)
    except OSError:
        return set()
