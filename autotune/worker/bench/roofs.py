"""Roofs of the machine, measured with compiled MLIR: peak FMA rate, and read bandwidth by working set."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from autotune.compiler.lowering.program import BoundProgram, compile_program
from autotune.compiler.passes.dots import INTRINSICS
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.passes.tiles import DOTS
from autotune.core.candidate import Candidate
from autotune.core.care import chosen_care
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine, Roofs
from autotune.core.host.matrix_unit import ROWS
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Payload
from autotune.core.precision import TILES, VECTORS, Precision
from autotune.core.trial import Samples
from autotune.worker.bench.kernels import (
    TILES_OF_SUMS,
    dot_payload,
    fma_payload,
    on_threads,
    read_payload,
    tile_payload,
)
from autotune.worker.bench.measure import measure_interleaved

CHAINS = (8, 10, 12, 14)  # independent FMA chains: enough to hide latency, few enough for 16 registers
REFERENCE_CHAINS = 12  # of the reference kernel; 8 reach only 97 % of the roof on some CPUs
STEPS = 20_000
EFFORT = Effort(samples=25, seconds=0.4)
SHORT = Effort(samples=10, seconds=0.15)
DRAM_BYTES = 1 << 28


def measure_roofs(machine: Machine) -> Roofs:
    """Measure all roofs; takes about three seconds."""
    return Roofs(
        flops=max(fma_rate(machine, chains) for chains in CHAINS),
        dram_bytes=read_rate(machine, DRAM_BYTES // machine.threads),
        l2_bytes=read_rate(machine, machine.l2_bytes // 2),
        **{precision.unit: dot_rate(machine, precision) for precision in units(machine)},
    )


def units(machine: Machine) -> list[Precision]:
    """Return the precisions for which a machine has a dot-product instruction, one per instruction."""
    tiles = TILES if machine.tiles == "amx" else ()
    return [each for each in (*VECTORS, *tiles) if each.parts == 1 and not each.lacking]


def timed(runs: Sequence[Callable[[int], None]], effort: Effort) -> list[Samples]:
    """Time programs interleaved, with the effort limited by the chosen care."""
    return measure_interleaved(runs, chosen_care().limit(effort))


def fma_rate(machine: Machine, chains: int) -> float:
    """Return the best rate of a loop of `chains` independent FMA chains, in operations per second."""
    run = reference_run(machine) if chains == REFERENCE_CHAINS else fma_run(machine, chains)
    (samples,) = timed([run], EFFORT)
    return 2 * machine.threads * machine.lanes * chains * STEPS / min(samples.seconds)


def fma_run(machine: Machine, chains: int) -> Callable[[int], None]:
    """Compile a loop of `chains` independent FMA chains on every thread."""
    return bind(on_threads(fma_payload(machine.lanes, chains, STEPS), machine.threads), machine).run


def dot_rate(machine: Machine, precision: Precision) -> float:
    """Return the best rate of independent dot products in registers, in operations per second.

    A multiplication and an addition are two operations.
    """
    if precision.by_tiles:
        kernels = {TILES_OF_SUMS * ROWS * ROWS: tile_payload(DOTS[precision.element], STEPS)}
    else:
        name = INTRINSICS[precision.element]
        kernels = {chains: dot_payload(name, precision.element, chains, STEPS) for chains in CHAINS[-2:]}
    rates = []
    for dots, kernel in kernels.items():  # dots: products of vectors of 16 words per step
        (samples,) = timed([bind(on_threads(kernel, machine.threads), machine).run], SHORT)
        rates.append(2 * machine.threads * dots * ROWS * precision.values * STEPS / min(samples.seconds))
    return max(rates)


def read_rate(machine: Machine, size: int) -> float:
    """Return the best rate of summing an array of `size` bytes on each thread, in bytes per second."""
    kernel = on_threads(read_payload(machine.lanes, size), machine.threads)
    (samples,) = timed([bind(kernel, machine).run], EFFORT)
    return machine.threads * size / min(samples.seconds)


def fork_seconds(machine: Machine) -> float:
    """Return the time of an empty parallel loop in seconds: waking the threads and joining them."""
    nothing = fma_payload(machine.lanes, 1, 1)
    runs = [bind(on_threads(nothing, threads), machine).run for threads in (machine.threads, 1)]
    together, alone = timed(runs, EFFORT)
    return max(0.0, min(together.seconds) - min(alone.seconds))


@lru_cache(maxsize=1)
def reference_run(machine: Machine) -> Callable[[int], None]:
    """Return the reference kernel that is timed between samples: FMAs in registers, about 0.1 ms per call."""
    return fma_run(machine, REFERENCE_CHAINS)


def reference_flops(machine: Machine) -> int:
    """Return the number of operations of one call of the reference kernel, which runs at the FMA roof."""
    return 2 * machine.threads * machine.lanes * REFERENCE_CHAINS * STEPS


def bind(payload: Payload, machine: Machine) -> BoundProgram:
    """Compile a kernel and bind it to newly allocated arrays."""
    arrays = [aligned_empty(argument, machine.pages) for argument in payload.arguments]
    for array in arrays:
        array.fill(np.float32(0.5))
    return compile_program(payload, Candidate(None, tail(machine.threads))).bind(arrays)
