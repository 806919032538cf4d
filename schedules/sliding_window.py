"""Family for sliding window ops such as convolutions, with their consumers: register tiles of positions by channels.

    for f0 step 32: for h: for w0 step 14:
      for i: for j: for c:  y[h, w0 to w0 + 14, f0 to f0 + 32] += x[h + i, w0 + j to ..., c] * k[i, j, c, f0 to ...]

Windows are read in place, without im2col. Grouped and depthwise convolutions and pooling are covered as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, Lanes, LoopNest, Op
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules.blocking import cut, fitting_vectors, masked_length
from schedules.ends import MASKED, knobs_of_ends, mark_ends, needed_for
from schedules.functions import function_defaults, function_knobs
from schedules.matmul_model import FMAS_IN_FLIGHT, L2_BYTES_A_CYCLE, RegisterTile, score
from schedules.matmul_space import PACKINGS, REGISTER_M, below, even_tiles
from schedules.moves import Script
from schedules.shares import knobs_for, outer_counts, outer_default, outer_loop
from schedules.sliding_window_writer import SlidingWindowWriter

# Outer loops: over positions of the window; over channels; or all in the op's own order, in which rows of a register
# tile may come before the positions that share them. Stores hold these values.
ORDERS = ("places", "lanes", "rows")
LANES = ORDERS[1]
BYTES = 4
NEAR = 1.05  # of the fastest tile's cycles, within which a tile with fewer loads is preferred
MOST_ROWS = 28  # of a register tile that has all rows; with one vector per row, accumulators fill 32 registers
RUN = 64  # elements that are read at a time from each row of an operand beyond L2
UNEVEN = 3 / 4  # factor on the score of a tile that does not divide its positions: its consumers need larger blocks


@dataclass(frozen=True)
class SlidingWindow(Family):
    """Convolutions, pools and other ops that are vectorized along one loop, with fused consumers."""

    name: str = "sliding_window"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Return whether an op of the task has such a loop, alone or with element-wise consumers."""
        return not task.grows and any(op.lanes is not None for op in task.ops)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs for rows and width of a register tile, the outer loops' order, and the kernel's packing."""
        op, lanes = window_op(task)
        sizes = op.nest.sizes
        rows = row_tiles(sizes[lanes.row]) if lanes.row is not None else (1,)
        ends = knobs_of_ends((sizes[lanes.lane],), machine, is_tiled=True)
        widest = masked_length(sizes[lanes.lane], machine.lanes) + machine.lanes - 1 if ends else sizes[lanes.lane]
        widths = tuple(v * machine.lanes for v in fitting_vectors(widest, machine.lanes))
        knobs = [Knob("rows", rows), Knob("width", widths), *ends]
        knobs.append(Knob("outside", ORDERS))
        if is_parallelized(op.nest, lanes):
            knobs.extend(knobs_for({"m": outer_counts(op.nest, lanes.lane, machine)}))
        if lanes.constant_b:
            knobs += [Knob("pack_b", (PACKINGS[0], PACKINGS[-1])), Knob("prefetch", (False, True))]

        def registers(config: Config) -> bool:
            return fits(
                RegisterTile(int(config["rows"]), int(config["width"]) // machine.lanes, machine.lanes), machine
            )

        def ahead(config: Config) -> bool:
            in_order = config["outside"] == LANES and config.get("pack_b") == PACKINGS[-1]
            return not config.get("prefetch") or in_order

        fit = f"accumulators, a row of the kernel and an element fit {machine.vector_registers} registers"
        order = "the next panel is prefetched only where panels come one after the other"
        return Space((*knobs, *function_knobs(task)), (Constraint(fit, registers), Constraint(order, ahead)))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the register tile of an equivalent product; channels outermost if the kernel does not stay in L2.

        If all positions share the rows' operand, as the filters of a convolution along rows do, rows are outermost:
        part of them stays in L1 during the loop over positions, and each row is written contiguously. Rows that are
        all in one tile have no such loop; vectors beyond L2 are read once for all rows.
        """
        (op, lanes), space = window_op(task), self.space(task, machine)
        sizes = op.nest.sizes
        values = {knob.name: knob.values for knob in space.knobs}
        summed = prod(op.nest.reduced)
        like = Contraction(sizes[lanes.row] if lanes.row is not None else 1, sizes[lanes.lane], summed, constant_b=True)
        lanes_per_vector = machine.lanes
        tiles = [
            RegisterTile(int(r), int(w) // lanes_per_vector, lanes_per_vector)
            for r in values["rows"]
            for w in values["width"]
        ]
        far = is_read_from_memory(op, lanes, machine)
        if is_streamed(op, lanes, machine):
            best = widest(tiles, machine)
        else:
            best = fastest(like, tiles, machine, is_masked="ends" in values, far=far)
        large = BYTES * summed * like.n > machine.l2_bytes // 2
        if shares_rows(op, lanes) and sizes[lanes.row or 0] > best.rows:
            outside = ORDERS[0] if far else ORDERS[-1]
        else:
            outside = ORDERS[large]
        config: Config = {"rows": best.rows, "width": best.columns, "outside": outside}
        if "ends" in values:
            config = {**config, "ends": MASKED}
        packed: Config = {"pack_b": PACKINGS[-1], "prefetch": outside == LANES} if lanes.constant_b else {}
        shares = outer_default(op.nest, lanes.lane, machine) if is_parallelized(op.nest, lanes) else {}
        return {**config, **packed, **shares, **function_defaults(task)}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: tile the op into register tiles, alone or inside loops over blocks of its consumers."""
        space = self.space(task, machine)
        space.check(config)
        script = Script(space.knobs, config)
        mark_ends(script, config)
        op, lanes = window_op(task)
        writer = SlidingWindowWriter(script, op.nest, lanes, config, machine)
        if task.is_group:
            writer.write_group(task.ops)
        else:
            writer.write_alone(task.root.filled)
        return script.text

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return panels as wide as the register tile, if the kernel is packed beforehand."""
        stored = config.get("pack_b") == PACKINGS[-1]
        return Rewrites(int(config["width"]) if stored else 0, needed=needed_for(config))


def row_tiles(size: int) -> tuple[int, ...]:
    """Return the candidate rows of a register tile, including those that split all rows evenly, and all of them.

    Example:
        >>> row_tiles(17)
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17)
    """
    whole = [size] if size <= MOST_ROWS else []
    return tuple(sorted({*below(REGISTER_M, size + 1), *even_tiles(size), *whole}))


def fits(tile: RegisterTile, machine: Machine) -> bool:
    """Return whether the registers hold a tile's accumulators, a row of the kernel and an element."""
    return tile.rows == 1 or (tile.rows + 1) * tile.vectors + 1 <= machine.vector_registers


def widest(tiles: Sequence[RegisterTile], machine: Machine) -> RegisterTile:
    """Return the tile of one row with the most columns whose accumulators take at most half of the registers."""
    candidates = [tile for tile in tiles if tile.rows == 1 and 2 * tile.vectors <= machine.vector_registers]
    return max(candidates, key=lambda tile: tile.columns)


def fastest(
    like: Contraction, tiles: Sequence[RegisterTile], machine: Machine, *, is_masked: bool, far: bool = False
) -> RegisterTile:
    """Return the valid tile with the fewest cycles; among those nearly as fast, the one with the best score.

    Args:
        like: Product that is computed.
        tiles: Candidates.
        machine: Host that the schedule is for.
        is_masked: Whether remainders are masked vectors.
        far: Whether the kernel comes from beyond L2, in long runs: wider tiles are then preferred.
    """
    fitting = [tile for tile in tiles if fits(tile, machine)]
    tile_cycles = {tile: cycles(like, tile, machine, is_masked=is_masked, far=far) for tile in fitting}
    candidates = [tile for tile, tile_count in tile_cycles.items() if tile_count <= NEAR * min(tile_cycles.values())]

    def rank(tile: RegisterTile) -> tuple[int, float]:
        uneven = 1 if like.m % tile.rows == 0 else UNEVEN
        return min(tile.columns, RUN if far else 0), score(like, tile, machine) * uneven

    return max(candidates, key=rank)


def cycles(like: Contraction, tile: RegisterTile, machine: Machine, *, is_masked: bool, far: bool = False) -> float:
    """Estimate the cycles of one step of the sums for all rows and lanes, including remainders of the tiles.

    Each tile is bound by the throughput of its multiply-adds, by their latency, by its loads, or by loading its row of
    the kernel from L2, whichever is longest. A kernel from beyond L2 costs all tiles the same.
    """
    l2 = BYTES * like.k * tile.columns > machine.l1_bytes // 2 and not far
    lanes = cut(like.n, 0, tile.columns, powers_of_two=True, masked=machine.lanes if is_masked else 0)
    total = 0.0
    for rows, part in product(cut(like.m, 0, tile.rows), lanes):
        vectors = -(-part.register // machine.lanes)
        streamed = BYTES * machine.lanes / L2_BYTES_A_CYCLE * vectors if l2 else 0.0
        accumulators = max(rows.register * vectors, FMAS_IN_FLIGHT)
        longest = max(accumulators / 2, (rows.register + vectors) / 2, streamed)
        total += longest * (rows.size // rows.register) * (part.size // part.register)
    return total


def is_streamed(op: Op, lanes: Lanes, machine: Machine) -> bool:
    """Return whether what is summed is read once, from beyond L2; long contiguous reads of each row then pay."""
    all_loops = list(range(len(op.nest.sizes)))
    if lanes.products:  # one of both is a matrix, of which each element meets one of a vector
        once = any(sorted(d for d in operand.loops if d is not None) == all_loops for operand in op.inputs)
    else:
        once = sorted(loop for terms in op.operands[0].terms for loop, _ in terms) == all_loops
    return once and BYTES * prod(op.nest.sizes) > machine.l2_bytes


def is_read_from_memory(op: Op, lanes: Lanes, machine: Machine) -> bool:
    """Return whether vectors come from an array beyond L2 that is no weight, as the input of a convolution along rows.

    Long runs of each of its rows are then read at a time: a channel of an image is one stream of many.
    """
    return lanes.products and not lanes.constant_b and BYTES * prod(op.operands[1].shape) > machine.l2_bytes


def shares_rows(op: Op, lanes: Lanes) -> bool:
    """Return whether the first operand of a product depends on a register tile's rows and no other parallel loop."""
    moving = {loop for terms in op.operands[0].terms for loop, _ in terms}
    return lanes.products and {d for d in moving if op.nest.iterators[d] == "parallel"} == {lanes.row}


def is_parallelized(nest: LoopNest, lanes: Lanes) -> bool:
    """Return whether threads may split an op along a loop that is not one of its register tile."""
    return outer_loop(nest, lanes.lane) != lanes.row


def window_op(task: Task) -> tuple[Op, Lanes]:
    """Return the op of a task with a sliding window, and its register tile; the one with the most work if several.

    Raises:
        ScheduleError: No op of the task has a sliding window.
    """
    window_ops = [(op, op.lanes) for op in task.ops if op.lanes is not None]
    if not window_ops:
        raise ScheduleError(
            f"schedule 'sliding_window' needs an op with a sliding window, got {task.tag}; try 'vectorize'"
        )
    return max(window_ops, key=lambda pair: prod(pair[0].nest.sizes))


SLIDING_WINDOW = SlidingWindow()
