"""The machine's roofs, measured with compiled MLIR: peak FMA rate, and read bandwidth by working set."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from autotune.ir.kernels import fma_payload, read_payload
from autotune.ir.lower import TAIL
from autotune.ir.program import BoundProgram, aligned_empty, compile_program
from autotune.machine import Machine
from autotune.measure import Effort, measure_interleaved
from autotune.task import Payload

CHAINS = (8, 10, 12, 14)  # independent FMA chains: enough to hide latency, few enough for 16 registers
REFERENCE_CHAINS = 12  # of the kernel between samples; 8 stay 3 % below the roof on some CPUs
STEPS = 20_000
EFFORT = Effort(samples=25, seconds=0.4)
DRAM_BYTES = 1 << 28


@dataclass(frozen=True)
class Roofs:
    """What one core of this machine can do at best, measured now.

    Attributes:
        flops: Peak floating-point operations a second (FMA counts as two), f32 vectors.
        dram_bytes: Bytes a second read from memory.
        l2_bytes: Bytes a second read from a working set of half the L2 cache.
    """

    flops: float
    dram_bytes: float
    l2_bytes: float


def measure_roofs(machine: Machine) -> Roofs:
    """Measure all roofs; takes about two seconds."""
    return Roofs(
        flops=max(fma_rate(machine, chains) for chains in CHAINS),
        dram_bytes=read_rate(machine, DRAM_BYTES),
        l2_bytes=read_rate(machine, machine.l2_bytes // 2),
    )


def fma_rate(machine: Machine, chains: int) -> float:
    """Best rate of a loop of independent FMAs, in operations a second."""
    (samples,) = measure_interleaved([bind(fma_payload(machine.lanes, chains, STEPS), machine).run], EFFORT)
    return 2 * machine.lanes * chains * STEPS / min(samples.seconds)


def read_rate(machine: Machine, size: int) -> float:
    """Best rate of summing an array of `size` bytes, in bytes a second."""
    (samples,) = measure_interleaved([bind(read_payload(machine.lanes, size), machine).run], EFFORT)
    return size / min(samples.seconds)


@lru_cache(maxsize=1)
def reference_run(machine: Machine) -> Callable[[int], None]:
    """The reference kernel that is timed between samples: FMAs in registers, about 0.1 ms a call."""
    return bind(fma_payload(machine.lanes, REFERENCE_CHAINS, STEPS), machine).run


def reference_flops(machine: Machine) -> int:
    """Operations of one call of the reference kernel, which runs at the FMA roof."""
    return 2 * machine.lanes * REFERENCE_CHAINS * STEPS


def bind(payload: Payload, machine: Machine) -> BoundProgram:
    """Compile a roof kernel and bind it to data of its own."""
    arrays = [aligned_empty(argument, machine.pages) for argument in payload.arguments]
    for array in arrays:
        array.fill(np.float32(0.5))
    return compile_program(payload, None, TAIL).bind(arrays)
