"""Cycles of a contraction predicted from those of its hot loop with all data in L1; nothing is run.

    hot loop (llvm-mca) + B from L2 + A and C through L2 + copies of B + leftovers of the register tiles

The cache model is that of `schedules.matmul_model`, which chooses defaults; the hot loop's cycles are llvm-mca's.
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

FMAS_A_CYCLE, LATENCY, LOADS_A_CYCLE = 2, 4, 2  # of cores of the last decade, as in `matmul_model`

CALL_CYCLES, VECTOR_CYCLES = 40, 20  # of a math function: a libm call for one element, a polynomial for one vector


def contraction_cycles(c: Contraction, config: Config, machine: Machine, in_l1: float) -> float:
    """Return the cycles of one product, including its whole batch.

    Args:
        c: Product, of the size at which its nest begins.
        config: Value of every knob of `schedules.matmul`.
        machine: Machine that the script is for.
        in_l1: Cycles of a vector multiply-add in the hot loop, with its data in L1.
    """
    main, *rest = regions(cut_all(c, config))
    fmas = c.m * c.n * c.k / machine.lanes
    passing = (1 / flow(c, config, machine) - 1) / FMAS_A_CYCLE * fmas
    copied = 2 * BYTES * c.n * c.k / BEYOND_L2_BYTES_A_CYCLE if config["pack_b"] == "panels" else 0.0
    cycles = region_cycles(main, machine, in_l1)
    cycles += sum(region_cycles(region, machine, max(in_l1, slowest_of(region, machine))) for region in rest)
    return c.batch * (cycles + passing + copied)


def whole_cycles(c: Contraction, config: Config, machine: Machine) -> float:
    """Return the cycles of one product without llvm-mca: its hot loop is bound by FMA latency and loads."""
    main = next(iter(regions(cut_all(c, config))))
    return contraction_cycles(c, config, machine, slowest_of(main, machine))


def least_cycles(c: Contraction, machine: Machine) -> float:
    """Return the cycles of one product if no multiply-add ever stalls."""
    return c.batch * c.m * c.n * c.k / machine.lanes / FMAS_A_CYCLE


def region_cycles(region: Region, machine: Machine, in_l1: float) -> float:
    """Return the cycles of a region's multiply-adds: of the hot loop, or of loading B from L2 if that takes longer.

    llvm-mca's loop has the load ports for itself. In a real product cache fills compete for them: the fewer
    multiply-adds per load, the slower the loop (see `ENOUGH_FMAS_PER_LOAD` in `matmul_model`).
    """
    rows, columns = region["m"].register, region["n"].register
    vectors = -(-columns // machine.lanes)
    fmas = prod(region[dim].size for dim in "mnk") / columns * vectors
    crowded = max(1.0, ENOUGH_FMAS_PER_LOAD * (rows + vectors) / (rows * vectors))
    block = BYTES * region["k"].cache * region["n"].cache
    streamed = BYTES * machine.lanes / (rows * L2_BYTES_A_CYCLE) if block > machine.l1_bytes // 2 else 0.0
    return fmas * max(in_l1 * crowded, streamed)


def slowest_of(region: Region, machine: Machine) -> float:
    """Return the cycles per vector multiply-add of a register tile, bound by accumulator latency and by loads."""
    rows, vectors = region["m"].register, -(-region["n"].register // machine.lanes)
    sums = rows * vectors
    return max(1 / FMAS_A_CYCLE, LATENCY / sums, (rows + vectors) / LOADS_A_CYCLE / sums)


def group_cycles(shape: Shape, config: Config, machine: Machine, in_l1: float) -> float:
    """Return the cycles of a group's contractions, sized as inside its loops; 0 if it has none."""
    cycles = 0.0
    for index, whole in enumerate(shape.contractions):
        tile = tile_of(shape, config, index)
        repetitions = whole.flops / tile.flops
        cycles += repetitions * contraction_cycles(tile, contraction_config(shape, config, index), machine, in_l1)
    return cycles


def row_delay(shape: Shape, config: Config, machine: Machine) -> float:
    """Return the slowdown of a group relative to no stalls: of its math functions and its only contraction, if any.

    With several contractions the row blocks decide, which this model does not cover.
    """
    elements = prod(shape.sizes[: shape.rows]) * (shape.columns or shape.width)
    least = elements * VECTOR_CYCLES / machine.lanes
    cycles = elements * CALL_CYCLES if config.get("math") == CALL else least
    for index, whole in enumerate(shape.contractions):
        tile = tile_of(shape, config, index)
        cycles += whole.flops / tile.flops * whole_cycles(tile, contraction_config(shape, config, index), machine)
        least += least_cycles(whole, machine)
    return cycles / least
