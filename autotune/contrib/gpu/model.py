"""Analytical cost model of a kernel on a described device; it ranks configurations and does not predict run times.

The operations of one block are counted (`counts`). A multiprocessor executes them for all resident blocks, limited by
the throughput of its busiest unit and by the latency of one warp's chain of dependent instructions, loads and barriers;
instructions for the elements of one vector are independent. There are no caches: data that two blocks read is fetched
twice.
"""

from dataclasses import dataclass
from math import ceil

from autotune.contrib.gpu.counts import SECTOR_BYTES, WARP, BlockCounts
from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.kernel import Kernel

VERSION = "2"  # of the model: stored estimates of another version are not reused
# Latencies in cycles, orders of magnitude from NVIDIA's tuning guides and published microbenchmarks.
DEPENDENT, FETCH, BARRIER = 4, 60, 30  # an instruction; a load of global memory with eight in flight; a barrier
SPECIAL_CYCLES = 2  # of an exponential or a division on the special function units, of 16 lanes
REGISTERS = 65_536  # of a multiprocessor


@dataclass(frozen=True)
class Estimate:
    """The model's estimate of a kernel.

    Attributes:
        cycles: Cycles of the whole grid.
        resident: Number of resident blocks of a multiprocessor.
        bound: Limiting resource: ``arithmetic``, ``issue``, ``workgroup memory``, ``global memory`` or ``latency``.
        fused: Utilization of the device's multiply-add throughput, from 0 to 1.
    """

    cycles: float
    resident: int
    bound: str
    fused: float = 0.0


def estimate(kernel: Kernel, counts: BlockCounts, device: Device, registers: int = 0) -> Estimate:
    """Estimate the cycles of a kernel.

    Args:
        kernel: Kernel with its block and grid sizes.
        counts: Operation counts of one block.
        device: Target device.
        registers: Registers of a thread, from ptxas; 0 if unknown.
    """
    resident = resident_blocks(kernel, device, registers)
    warps = ceil(kernel.threads / WARP)
    busy = {
        "arithmetic": counts.arithmetic * WARP / device.lanes + counts.special * SPECIAL_CYCLES,
        "issue": counts.instructions / device.issued,
        "workgroup memory": float(counts.shared),
        "global memory": counts.sectors * SECTOR_BYTES / device.bytes_per_cycle,
    }
    bound = max(busy, key=lambda unit: busy[unit])
    chain = (DEPENDENT * counts.steps + FETCH * counts.fetched + BARRIER * counts.barriers) / warps
    together = min(resident, ceil(kernel.blocks / device.cores))
    waves = ceil(kernel.blocks / (device.cores * resident))
    is_latency_bound = chain > together * busy[bound]
    cycles = waves * (chain if is_latency_bound else together * busy[bound])
    fused = kernel.blocks * counts.fused * WARP / (device.cores * device.lanes * cycles) if cycles else 0.0
    return Estimate(cycles, resident, "latency" if is_latency_bound else bound, fused)


def resident_blocks(kernel: Kernel, device: Device, registers: int) -> int:
    """Return the number of resident blocks of a multiprocessor, at least one."""
    threads = ceil(kernel.threads / WARP) * WARP
    limits = [device.blocks, device.resident // threads]
    if kernel.workgroup_bytes:
        limits.append(device.shared_bytes // kernel.workgroup_bytes)
    if registers:
        limits.append(REGISTERS // (registers * threads))
    return max(1, min(limits))
