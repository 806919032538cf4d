"""`Workplace`: the machine that is tuned for, the slots of the search, and the benches of finalists."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from autotune.compiler.codegen.openmp import threads_or_why
from autotune.core.bench import Bench
from autotune.core.evaluator import OneSlot, Slots
from autotune.core.host.machine import Machine, this_machine
from autotune.core.objective import Objective
from autotune.core.payload import Payload
from autotune.worker.bench.claims import CoreClaim
from autotune.worker.bench.energy import find_counters
from autotune.worker.isolation.limits import check_memory
from autotune.worker.pool import WorkerPool
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class Workplace:
    """Machine that is tuned for, with its evaluators.

    Attributes:
        machine: Machine that candidates are tuned for.
        searchers: Function that opens the slots that evaluate candidates during the search.
        benches: Function that returns a bench for each slot, the least disturbed first: each race runs on one of them,
            races of several tasks in parallel.
        another: Function from a time limit in seconds to a bench on the same machine with a new process.
        notes: Notes on deviations from the requested setup, a sentence each.
        noise_floor: Known noise floor, a relative difference.
    """

    machine: Machine
    searchers: Callable[[], AbstractContextManager[Slots]]
    benches: Callable[[], Sequence[Bench]]
    another: Callable[[float], AbstractContextManager[Bench]]
    notes: tuple[str, ...] = ()
    noise_floor: float = 0.0


@contextmanager
def open_workplace(threads: int, timeout: float, jobs: int = 1) -> Iterator[Workplace]:
    """Open a workplace of workers on this machine.

    Args:
        threads: Number of threads of programs.
        timeout: Time limit of a candidate, in seconds.
        jobs: Number of candidates that are evaluated in parallel in the search, each on a core of its own.

    Yields:
        The workplace, until the block ends.

    Raises:
        OptionError: This machine has fewer cores.
    """
    threads, notes = threads_or_why(threads)
    with Worker(timeout, threads=threads) as worker, ExitStack() as stack:
        cores = stack.enter_context(claimed(jobs)) if jobs > 1 else ()
        if len(cores) < jobs > 1:
            notes += (f"other tuners hold cores of this machine: {max(1, len(cores))} of {jobs} jobs are worked on",)
        # The pool's processes start while roofs are measured.
        pool = stack.enter_context(WorkerPool(cores, timeout)) if len(cores) > 1 else None
        yield Workplace(
            this_machine(threads),
            pool.searching if pool is not None else lambda: nullcontext(OneSlot(worker)),
            lambda: [worker],
            lambda seconds: Worker(seconds, threads=threads),
            notes,
        )


@contextmanager
def claimed(count: int) -> Iterator[tuple[int, ...]]:
    """Claim up to `count` cores that no other tuner uses, until the block ends; races run on the last one."""
    with CoreClaim(count) as claim:
        yield tuple(core for core in claim.cores if core not in claim.shared)


def check_means(payload: Payload, jobs: int, objective: Objective) -> None:
    """Raise unless this machine has enough memory, and energy counters where joules are an objective.

    Args:
        payload: Payload that is tuned.
        jobs: Number of candidates that are evaluated here in parallel; 0 for none.
        objective: Objectives that are minimised.

    Raises:
        PayloadError: The payload does not fit the machine.
        MachineError: Energy cannot be read.
    """
    if objective.has_joules:
        find_counters()
    if jobs:
        check_memory(payload, jobs)
