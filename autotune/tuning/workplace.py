"""Where a payload is tuned: the machine, the slots that search, and the bench that finalists race on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from autotune.compiler.openmp import threads_or_why
from autotune.core.evaluator import OneSlot, Slots
from autotune.core.machine import Machine, this_machine
from autotune.worker.bench import Bench
from autotune.worker.remote import RemoteBench
from autotune.worker.team import Team
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class Workplace:
    """Machine that is tuned for, and who measures on it.

    Attributes:
        machine: Machine that candidates are tuned for.
        slots: Whoever evaluates candidates in the search.
        benches: A bench a slot, the calmest first: a race is run on one of them, races of several tasks on all.
        another: Function that gives a bench on the same machine with a fresh process, for so many seconds a job.
        notes: Sentences on what is not as it was asked for.
    """

    machine: Machine
    slots: Slots
    benches: Callable[[], Sequence[Bench]]
    another: Callable[[float], AbstractContextManager[Bench]]
    notes: tuple[str, ...] = ()


@contextmanager
def open_workplace(threads: int, timeout: float, team: Team | None = None) -> Iterator[Workplace]:
    """A worker of this machine, or a team of a cluster.

    Args:
        threads: Threads that programs may use.
        timeout: Seconds that one candidate may take.
        team: Team; `None` for this machine.

    Yields:
        The workplace, until the block ends.

    Raises:
        OptionError: This machine has not as many cores.
        MachineError: No machine of the team is left.
    """
    if team is not None:
        yield Workplace(
            team.machine,
            team,
            lambda: [RemoteBench(team, member.address) for member in team.members],
            lambda seconds: RemoteBench(team, team.members[0].address).another(seconds),
        )
        return
    threads, notes = threads_or_why(threads)
    machine = this_machine(threads)
    with Worker(timeout, threads=threads) as worker:
        yield Workplace(
            machine, OneSlot(worker), lambda: [worker], lambda seconds: Worker(seconds, threads=threads), notes
        )
