"""Where a payload is tuned: the machine, the slots that search, and the bench that finalists race on."""

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
from autotune.worker.crew import Crew
from autotune.worker.isolation.limits import check_memory
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class Workplace:
    """Machine that is tuned for, and what measures on it.

    Attributes:
        machine: Machine that candidates are tuned for.
        searchers: Function that opens the evaluator of candidates in the search, for as long as it takes.
        benches: A bench a slot, the calmest first: a race is run on one of them, races of several tasks on all.
        another: Function that gives a bench on the same machine with a fresh process, for so many seconds a job.
        notes: Sentences on what is not as it was asked for.
        noise_floor: What is known of its noise already: relative differences below it are ties.
    """

    machine: Machine
    searchers: Callable[[], AbstractContextManager[Slots]]
    benches: Callable[[], Sequence[Bench]]
    another: Callable[[float], AbstractContextManager[Bench]]
    notes: tuple[str, ...] = ()
    noise_floor: float = 0.0


@contextmanager
def open_workplace(threads: int, timeout: float, jobs: int = 1) -> Iterator[Workplace]:
    """Workers of this machine.

    Args:
        threads: Threads that programs may use.
        timeout: Seconds that one candidate may take.
        jobs: Candidates of this machine that are worked on at once in the search, of a core each.

    Yields:
        The workplace, until the block ends.

    Raises:
        OptionError: This machine has not as many cores.
    """
    threads, notes = threads_or_why(threads)
    with Worker(timeout, threads=threads) as worker, ExitStack() as stack:
        cores = stack.enter_context(claimed(jobs)) if jobs > 1 else ()
        if len(cores) < jobs > 1:
            notes += (f"other tuners hold cores of this machine: {max(1, len(cores))} of {jobs} jobs are worked on",)
        # A crew loads while roofs are measured.
        crew = stack.enter_context(Crew(cores, timeout)) if len(cores) > 1 else None
        yield Workplace(
            this_machine(threads),
            crew.searching if crew is not None else lambda: nullcontext(OneSlot(worker)),
            lambda: [worker],
            lambda seconds: Worker(seconds, threads=threads),
            notes,
        )


@contextmanager
def claimed(count: int) -> Iterator[tuple[int, ...]]:
    """As many cores as are free of other tuners, at most so many, until the block ends; the last is measured on."""
    with CoreClaim(count) as claim:
        yield tuple(core for core in claim.cores if core not in claim.shared)


def check_means(payload: Payload, jobs: int, objective: Objective) -> None:
    """Refuse what cannot be measured: without memory for it here, or without counters of energy.

    Args:
        payload: Payload that is tuned.
        jobs: Candidates that are worked on at once here; 0 for none.
        objective: What is minimised.

    Raises:
        PayloadError: The payload does not fit the machine.
        MachineError: Energy cannot be read.
    """
    if objective.has_joules:
        find_counters()
    if jobs:
        check_memory(payload, jobs)
