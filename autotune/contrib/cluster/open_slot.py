"""Open a slot: reserve cores of this machine, start a worker on them, and measure its speed and noise."""

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
from autotune.worker.bench.noise import floor_of, time_copies
from autotune.worker.doctor import find_missing
from autotune.worker.worker import Worker

PAIRS = 2  # A/A comparisons: one memory-bound and one compute-bound kernel
DIGITS = 8  # length of the hash of the pass pipeline


def software(threads: int) -> str:
    """Return the versions and pipeline hash that a tuner and the slots that measure for it must share."""
    digest = sha256((DESTINATIONS + LOWERING + compilation(threads)).encode()).hexdigest()[:DIGITS]
    return f"autotune {version(DISTRIBUTION)} mlir {compiler_version()} pipeline {digest}"


def open_slot(threads: int = 1) -> OpenSlot:
    """Reserve cores of this machine, start a worker on them, and time two kernels; takes some seconds.

    Args:
        threads: Threads that programs may use, one per core.

    Raises:
        MachineError: Too few cores are free, or a kernel cannot be timed.
        OptionError: This machine has too few cores.
    """
    threads, why = threads_or_why(threads)
    with ExitStack() as stack:
        cores = take_cores(physical_cores(), threads, stack)
        machine = this_machine(threads)
        worker = stack.enter_context(Worker(threads=threads, cores=cores))
        pairs = time_copies(machine, worker, PAIRS)
        if len(pairs) < PAIRS:
            raise MachineError("a slot must be able to time two kernels, one failed; run `autotune doctor` there")
        floor = floor_of(pairs)
        memory, compute = (quiet_time((*pair.a, *pair.b)) for pair in pairs)
        slot = Slot(machine.fingerprint, software(threads), machine.isa, threads, floor, compute, memory)
        advice = (*why, *advise(floor, machine.cores, cores))
        return OpenSlot(slot, machine, cores, worker, tuple(find_missing()), advice, stack.pop_all().close)


def take_cores(cores: Sequence[int], threads: int, stack: ExitStack) -> tuple[int, ...]:
    """Reserve the highest-numbered cores that no other slot of this machine has.

    A reservation is the name of an abstract Unix socket, which the kernel releases with the process, however it ends.
    The lock files of tuners are taken as well, to keep later tuners off the cores.

    Args:
        cores: Cores to choose from, in ascending order.
        threads: Number of cores to reserve.
        stack: Releases the cores when it is closed.

    Raises:
        MachineError: Fewer cores are free.
    """
    reserved: list[int] = []
    with ExitStack() as reservations:
        for core in reversed(cores):
            reservation = reservations.enter_context(socket.socket(socket.AF_UNIX))
            try:
                reservation.bind(f"\0autotune core {core}")
            except OSError:
                continue
            reserved.append(core)
            if len(reserved) == threads:
                stack.enter_context(reservations.pop_all())
                keep_tuners_off(reserved, stack)
                return tuple(sorted(reserved))
    raise MachineError(
        f"a slot needs {threads} core(s) of its own, {len(reserved)} of {len(cores)} are free; "
        "start fewer slots on this machine, or end what holds them"
    )


def keep_tuners_off(cores: Sequence[int], stack: ExitStack) -> None:
    """Take the lock files of cores as a tuner does; skip a core whose lock is already held."""
    folder = own_folder()
    for core in cores if folder is not None else ():
        if folder is not None and (descriptor := lock_of(folder / str(core))) is not None:
            stack.callback(os.close, descriptor)
