"""A model of the time that a kernel takes on a described device: it ranks configs, and is nobody's speed.

What a block does is counted (`counts`); a multiprocessor does it for all blocks it holds at once, as fast as its
busiest unit, and no faster than one warp's chain of instructions, loads and barriers, of which those for the elements
of one vector need not wait for each other. Caches are left out: what two blocks read is fetched twice.
"""

from dataclasses import dataclass
from math import ceil

from autotune.contrib.gpu.counts import SECTOR_BYTES, WARP, BlockCounts
from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.kernel import Kernel

VERSION = "2"  # of what it says of a kernel: what stores keep of another one is not used again
# Cycles that a warp waits, by what NVIDIA's tuning guides and microbenchmarks of its chips tell; orders of magnitude.
DEPENDENT, FETCH, BARRIER = 4, 60, 30  # an instruction; a load of global memory, eight of them under way; a barrier
SPECIAL_CYCLES = 2  # that exponentials and divisions take the special units, of 16 lanes
REGISTERS = 65_536  # of a multiprocessor


@dataclass(frozen=True)
class Estimate:
    """What the model says of a kernel.

    Attributes:
        cycles: Cycles of the whole grid.
        resident: Blocks that a multiprocessor holds at once.
        bound: What bounds them: ``arithmetic``, ``issue``, ``workgroup memory``, ``global memory`` or ``latency``.
        fused: Share of the device's multiply-adds in those cycles that the kernel's own are.
    """

    cycles: float
    resident: int
    bound: str
    fused: float = 0.0


def estimate(kernel: Kernel, counts: BlockCounts, device: Device, registers: int = 0) -> Estimate:
    """Cycles of a kernel.

    Args:
        kernel: Kernel with its blocks and memory.
        counts: What one block does.
        device: What it runs on.
        registers: Registers of a thread, where ptxas says so.
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
    late = chain > together * busy[bound]
    cycles = waves * (chain if late else together * busy[bound])
    fused = kernel.blocks * counts.fused * WARP / (device.cores * device.lanes * cycles) if cycles else 0.0
    return Estimate(cycles, resident, "latency" if late else bound, fused)


def resident_blocks(kernel: Kernel, device: Device, registers: int) -> int:
    """Blocks that a multiprocessor holds at once: at least one."""
    threads = ceil(kernel.threads / WARP) * WARP
    limits = [device.blocks, device.resident // threads]
    if kernel.workgroup_bytes:
        limits.append(device.shared_bytes // kernel.workgroup_bytes)
    if registers:
        limits.append(REGISTERS // (registers * threads))
    return max(1, min(limits))
