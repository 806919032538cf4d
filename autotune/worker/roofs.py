"""The machine's roofs, measured with compiled MLIR: peak FMA rate, and read bandwidth by working set."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from autotune.compiler.lower import TAIL
from autotune.compiler.program import BoundProgram, compile_program
from autotune.core.evaluator import Effort
from autotune.core.machine import Machine, Roofs
from autotune.core.pages import aligned_empty
from autotune.core.payload import Payload
from autotune.worker.kernels import fma_payload, read_payload
from autotune.worker.measure import measure_interleaved

CHAINS = (8, 10, 12, 14)  # independent FMA chains: enough to hide latency, few enough for 16 registers
REFERENCE_CHAINS = 12  # of the kernel between samples; 8 stay 3 % below the roof on some CPUs
STEPS = 20_000
EFFORT = Effort(samples=25, seconds=0.4)
DRAM_BYTES = 1 << 28


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
