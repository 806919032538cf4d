"""Opening a slot: cores that no other run measures on, a worker on them, and what its machine is worth now."""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from importlib.metadata import version

from autotune.compiler.codegen.openmp import threads_or_why
from autotune.compiler.ir.module import compiler_version
from autotune.compiler.lowering.pipeline import compilation
from autotune.contrib.cluster.slot import OpenSlot, Slot
from autotune.core.errors import MachineError
from autotune.core.host.cores import physical_cores
from autotune.core.host.extras import DISTRIBUTION
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import DESTINATIONS, LOWERING
from autotune.core.stats import quiet_time
from autotune.worker.bench.claims import lock_of, own_folder
from autotune.worker.bench.disturbance import advise
from autotune.worker.bench.noise import floor_of, time_twins
from autotune.worker.doctor import find_missing
from autotune.worker.worker import Worker

PAIRS = 2  # A/A comparisons: one of a kernel that reads memory, one of a kernel that computes
DIGITS = 8  # of the hash of what candidates go through


def software(threads: int) -> str:
    """What must be equal where a candidate is asked for and where it is measured."""
    through = sha256((DESTINATIONS + LOWERING + compilation(threads)).encode()).hexdigest()[:DIGITS]
    return f"autotune {version(DISTRIBUTION)} mlir {compiler_version()} pipeline {through}"


def open_slot(threads: int = 1) -> OpenSlot:
    """Take cores of this machine, start a worker on them, and measure two kernels; takes some seconds.

    Args:
        threads: Threads that programs may use, of a core each.

    Raises:
        MachineError: There are not as many free cores, or nothing can be measured.
        OptionError: There are not as many cores.
    """
    threads, why = threads_or_why(threads)
    with ExitStack() as stack:
        cores = take_cores(physical_cores(), threads, stack)
        machine = this_machine(threads)
        worker = stack.enter_context(Worker(threads=threads, cores=cores))
        pairs = time_twins(machine, worker, PAIRS)
        if len(pairs) < PAIRS:
            raise MachineError("a slot must be able to time two kernels, one failed; run `autotune doctor` there")
        floor = floor_of(pairs)
        memory, compute = (quiet_time((*pair.a, *pair.b)) for pair in pairs)
        slot = Slot(machine.fingerprint, software(threads), machine.isa, threads, floor, compute, memory)
        advice = (*why, *advise(floor, machine.cores))
        return OpenSlot(slot, machine, cores, worker, tuple(find_missing()), advice, stack.pop_all().close)


def take_cores(cores: Sequence[int], threads: int, stack: ExitStack) -> tuple[int, ...]:
    """The highest cores that no other slot of this machine has, until the stack is closed.

    A core is held by a name of the system's, which it drops with the process, however that ends; and, for tuners that
    begin later on this machine, as they hold theirs.

    Args:
        cores: Cores to choose from, in ascending order.
        threads: Number of cores to take.
        stack: Gives them back when it is closed.

    Raises:
        MachineError: Fewer are free.
    """
    taken: list[int] = []
    with ExitStack() as held:
        for core in reversed(cores):
            name = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                name.bind(f"\0autotune core {core}")
            except OSError:
                continue
            taken.append(core)
            if len(taken) == threads:
                stack.enter_context(held.pop_all())
                keep_tuners_off(taken, stack)
                return tuple(sorted(taken))
    raise MachineError(
        f"a slot needs {threads} core(s) of its own, {len(taken)} of {len(cores)} are free; "
        "start fewer slots on this machine, or end what holds them"
    )


def keep_tuners_off(cores: Sequence[int], stack: ExitStack) -> None:
    """Hold cores as a tuner does, where none does yet: one that only reads on a core is no reason to leave it."""
    folder = own_folder()
    for core in cores if folder is not None else ():
        if folder is not None and (descriptor := lock_of(folder / str(core))) is not None:
            stack.callback(os.close, descriptor)
