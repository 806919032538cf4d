"""Cycles of a contraction by arithmetic, from what its hot loop takes with all data in L1: nothing is run.

    hot loop (llvm-mca) + B out of L2 + A and C through L2 + copies of B + what register tiles leave over

The caches are those of `schedules.matmul_model`, which chooses defaults; what the hot loop takes is llvm-mca's word.
"""

from math import prod

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.space import Config
from schedules.blocking import Region, regions
from schedules.functions import CALL
from schedules.fused_shape import Shape, contraction_config, tile_of
from schedules.matmul_model import BEYOND_L2_BYTES_A_CYCLE, ENOUGH_FMAS_PER_LOAD, L2_BYTES_A_CYCLE, flow
from schedules.matmul_space import BYTES, cut_all

FMAS_A_CYCLE, LATENCY, LOADS_A_CYCLE = 2, 4, 2  # of cores of the last decade, as `matmul_model` takes them

CALL_CYCLES, VECTOR_CYCLES = 40, 20  # of a function: by libm for one element, by a polynomial for a vector of them


def contraction_cycles(c: Contraction, config: Config, machine: Machine, in_l1: float) -> float:
    """Cycles of one product, all batches of it.

    Args:
        c: The product, as large as it is where its nest begins.
        config: Value of every knob of `schedules.matmul`.
        machine: Machine that the script is for.
        in_l1: Cycles of a vector multiply-add in the hot loop, its data in L1.
    """
    main, *rest = regions(cut_all(c, config))
    fmas = c.m * c.n * c.k / machine.lanes
    passing = (1 / flow(c, config, machine) - 1) / FMAS_A_CYCLE * fmas
    copied = 2 * BYTES * c.n * c.k / BEYOND_L2_BYTES_A_CYCLE if config["pack_b"] == "panels" else 0.0
    done = region_cycles(main, machine, in_l1)
    done += sum(region_cycles(each, machine, max(in_l1, slowest_of(each, machine))) for each in rest)
    return c.batch * (done + passing + copied)


def whole_cycles(c: Contraction, config: Config, machine: Machine) -> float:
    """Cycles of one product without any word of llvm-mca: its hot loop takes what latency and loads take."""
    main = next(iter(regions(cut_all(c, config))))
    return contraction_cycles(c, config, machine, slowest_of(main, machine))


def least_cycles(c: Contraction, machine: Machine) -> float:
    """Cycles of one product of which no multiply-add ever waits."""
    return c.batch * c.m * c.n * c.k / machine.lanes / FMAS_A_CYCLE


def region_cycles(region: Region, machine: Machine, in_l1: float) -> float:
    """Cycles of a region's multiply-adds: of the hot loop, or of B's way from L2 where that takes longer.

    llvm-mca's loop has the load ports for itself. In a product caches are filled meanwhile: the fewer multiply-adds a
    load, the longer the loop takes (`matmul_model`, `ENOUGH_FMAS_PER_LOAD`).
    """
    rows, columns = region["m"].register, region["n"].register
    vectors = -(-columns // machine.lanes)
    fmas = prod(region[dim].size for dim in "mnk") / columns * vectors
    crowded = max(1.0, ENOUGH_FMAS_PER_LOAD * (rows + vectors) / (rows * vectors))
    block = BYTES * region["k"].cache * region["n"].cache
    streamed = BYTES * machine.lanes / (rows * L2_BYTES_A_CYCLE) if block > machine.l1_bytes // 2 else 0.0
    return fmas * max(in_l1 * crowded, streamed)


def slowest_of(region: Region, machine: Machine) -> float:
    """Cycles a multiply-add of a register tile by the latency of its sums and by its loads."""
    rows, vectors = region["m"].register, -(-region["n"].register // machine.lanes)
    sums = rows * vectors
    return max(1 / FMAS_A_CYCLE, LATENCY / sums, (rows + vectors) / LOADS_A_CYCLE / sums)


def group_cycles(shape: Shape, config: Config, machine: Machine, in_l1: float) -> float:
    """Cycles of a group's contractions, as large as they are inside its loops; 0 where it has none."""
    found = 0.0
    for index, whole in enumerate(shape.contractions):
        tile = tile_of(shape, config, index)
        times = whole.flops / tile.flops
        found += times * contraction_cycles(tile, contraction_config(shape, config, index), machine, in_l1)
    return found


def row_delay(shape: Shape, config: Config, machine: Machine) -> float:
    """How many times as long as without any waiting a group takes: its functions, and the one product it may have.

    Blocks of rows decide where there are several products; this arithmetic knows nothing of them.
    """
    elements = prod(shape.sizes[: shape.rows]) * (shape.columns or shape.width)
    least = elements * VECTOR_CYCLES / machine.lanes
    found = elements * CALL_CYCLES if config.get("math") == CALL else least
    for index, whole in enumerate(shape.contractions):
        tile = tile_of(shape, config, index)
        found += whole.flops / tile.flops * whole_cycles(tile, contraction_config(shape, config, index), machine)
        least += least_cycles(whole, machine)
    return found / least
