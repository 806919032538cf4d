"""Schedule family of matrix products on GPUs: block and thread tiles of C, accumulators in registers, staged A and B.

    for block (y, x):                                       grid of m / block_m by n / block_n
      for k in steps of block_k:
        workgroup a = A[block rows, k], b = B[k, block columns]     (if staged), a barrier
        for thread (y, x): c[thread_m, thread_n] += a b             rows of vectors, unrolled; a barrier
      for thread (y, x): C[thread_m, thread_n] = f(c, ...)          fused elementwise operations, in registers

Tile sizes divide the next larger ones, so that a prime size has tiles of 1 or of itself.
"""

from dataclasses import dataclass
from math import gcd

from autotune.contrib.gpu.device import GRID, Device
from autotune.contrib.gpu.script import MARK, GpuScript, widest_vector
from autotune.contrib.gpu.tiles import F32_BYTES, divisors, nearest
from autotune.core.errors import ScheduleError
from autotune.core.ops.op import Contraction, Op, Operand
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.group import find_members, fuse, fuse_members

BLOCKS, STEPS, TILES = (1, 2, 4, 8, 16, 32, 64, 128), (4, 8, 16, 32), (1, 2, 4, 8)
SQUARE = 64  # rows and columns of a block, by default
MOST_SUMS = 64  # accumulators of a thread, each in a register
MOST_UNROLLED = 4  # unroll factor of k in the innermost loop


@dataclass(frozen=True)
class GpuMatmul:
    """The family of matrix products in f32 with fused elementwise consumers."""

    name: str = "matmul"

    def covers(self, task: Task) -> bool:
        """Return whether a task is a plain or transposed product, followed by elementwise consumers only."""
        products = [op for op in task.ops if op.contraction is not None]
        if len(products) != 1 or not is_plain(products[0]):
            return False
        followed = products[0] is task.ops[-1]
        return followed and all(is_behind(op, products[0].nest.sizes[:2]) for op in task.ops[:-1])

    def space(self, task: Task, device: Device) -> Space:
        """Return knobs for tiles that divide the sizes, with the limits of the device."""
        product = contraction_of(task)

        def divides(config: Config) -> bool:
            return not (
                int(config["block_m"]) % int(config["thread_m"]) or int(config["block_n"]) % int(config["thread_n"])
            )

        def fits_block(config: Config) -> bool:
            return block_threads(config) <= device.threads

        def fits_memory(config: Config) -> bool:
            return workgroup_bytes(config) <= device.workgroup_bytes

        def fits_registers(config: Config) -> bool:
            return int(config["thread_m"]) * int(config["thread_n"]) <= MOST_SUMS

        def fits_grid(config: Config) -> bool:
            return max(product.m // int(config["block_m"]), product.n // int(config["block_n"])) <= GRID

        return Space(
            (
                Knob("block_m", divisors(product.m, BLOCKS)),
                Knob("block_n", divisors(product.n, BLOCKS)),
                Knob("block_k", divisors(product.k, STEPS)),
                Knob("thread_m", divisors(product.m, TILES)),
                Knob("thread_n", divisors(product.n, TILES)),
                Knob("staged", (True, False)),
            ),
            (
                Constraint("tiles of threads divide those of blocks", divides),
                Constraint(f"a block has at most {device.threads} threads", fits_block),
                Constraint(f"workgroup memory of a block is at most {device.workgroup_bytes} bytes", fits_memory),
                Constraint(f"a thread keeps at most {MOST_SUMS} sums in registers", fits_registers),
                Constraint(f"a grid has at most {GRID} blocks along an axis", fits_grid),
            ),
        )

    def default(self, task: Task, device: Device) -> Config:
        """Return blocks of 64 x 64 and thread tiles of 4 x 4, or the nearest valid sizes.

        Rows are doubled if each multiprocessor still gets a block.
        """
        product, space = contraction_of(task), self.space(task, device)
        row_factor = 2 if product.m * product.n >= 2 * SQUARE * SQUARE * device.cores else 1
        values = {knob.name: [int(value) for value in knob.values] for knob in space.knobs}
        chosen: dict[str, int | str | bool] = {"staged": True, "block_k": nearest(values["block_k"], 16)}
        for dim, size, times in (("m", product.m, row_factor), ("n", product.n, 1)):
            tile = nearest(values[f"thread_{dim}"], 4 * times)
            blocks = [block for block in values[f"block_{dim}"] if block % tile == 0]
            chosen |= {f"thread_{dim}": tile, f"block_{dim}": nearest(blocks, min(size, SQUARE * times))}
        config = {knob.name: chosen[knob.name] for knob in space.knobs}
        return config if space.broken_constraint(config) is None else next(space.configs())

    def build(self, task: Task, config: Config, device: Device) -> str:
        """Return the complete transform script of a config."""
        script, product = GpuScript(), contraction_of(task)
        block = [int(config[f"block_{dim}"]) for dim in "mnk"]
        thread = [int(config["thread_m"]), int(config["thread_n"])]
        tiled = self.tile(script, task, block)
        if config["staged"]:
            script.stage(tiled, "f32", 3, keep=2)
        if task.is_group:
            script.keep_in_workgroup()
        script.bufferize()
        threads, unrolled = [block[0] // thread[0], block[1] // thread[1]], widest_vector(block[2], MOST_UNROLLED)
        width, depth = widest_vector(thread[1]), unrolled
        if product.transposed_b and 1 in (width, depth):  # a transpose to columns of one element does not vectorize
            width = depth = 1
        script.spread(script.ops("linalg.fill"), thread, width)
        if config["staged"]:
            a, b = script.split(script.ops("linalg.copy"), 2)
            script.spread(a, share([block[0], block[2]], threads, transposed=product.transposed_a))
            script.spread(b, share([block[2], block[1]], threads, transposed=product.transposed_b))
        tile = script.tile_threads(script.marked(MARK, len(task.ops) - 1), thread)
        if unrolled < block[2]:
            tile = script.tile_for(tile, [0, 0, unrolled])
        script.vectorize(tile, [*thread, unrolled], [1, width, depth], named=True)
        for number in reversed(range(len(task.ops) - 1)):
            script.spread(script.marked(MARK, number), thread, width)
        script.launch([threads[1], threads[0], 1])
        return script.text

    def tile(self, script: GpuScript, task: Task, block: list[int]) -> str:
        """Tile a task for blocks and its product along k; annotate the operations and return the product's tile."""
        members, op = task.ops, script.match(task.tag)
        handles, fills = find_members(script, members, op)
        if not task.is_group and members[0].filled is not None:
            fills[0] = moves.producer(script, op, members[0].filled)
        handles[0], blocks = script.tile_blocks(op, block[:2])
        loops = [blocks]
        fuse_members(script, handles, fills, loops)
        if not task.is_group:
            fuse(script, fills[0], loops)
        if block[2] < contraction_of(task).k:
            handles[-1] = script.tile_for(handles[-1], [0, 0, block[2]])
        for number, handle in enumerate(handles):
            moves.annotate(script, handle, MARK, number)
        return handles[-1]


def is_plain(op: Op) -> bool:
    """Return whether an operation is an f32 product that is accumulated from zero."""
    product = op.contraction
    if product is None or product.batched or not product.zeroed:
        return False
    return product.dtype == "f32" and not product.stored_b and not product.precision


def is_behind(op: Op, sizes: tuple[int, ...]) -> bool:
    """Return whether an operation is elementwise on a product of the given sizes, and vectorizes."""
    plain = op.nest.iterators == ("parallel", "parallel") and op.nest.sizes == sizes and op.results == 1
    simple = not (op.captured or op.gathers or op.counts) and op.vectorizes and op.filled is None
    return plain and simple and op.outputs[0].loops == [0, 1] and all(is_direct(each) for each in op.inputs)


def is_direct(operand: Operand) -> bool:
    """Return whether each dimension of an operand is indexed by a loop of its operation, or is constant."""
    return operand.dtype == "f32" and all(index.loop is not None or not index.moving for index in operand.indices)


def share(sizes: list[int], threads: list[int], *, transposed: bool) -> list[int]:
    """Return a thread's tile of a copy, whose last dimension is distributed along x.

    Args:
        sizes: Sizes of a tile of A or B in the order of the product's loops.
        threads: Threads of a block along y and x.
        transposed: Whether the operand is stored transposed.
    """
    stored = sizes[::-1] if transposed else sizes
    return [size // gcd(size, count) for size, count in zip(stored, threads, strict=True)]


def contraction_of(task: Task) -> Contraction:
    """Return the matrix product of a covered task.

    Raises:
        ScheduleError: The task has none.
    """
    if not task.contractions:
        raise ScheduleError(f"a task must have a product, {task.tag} has none; check `covers` first")
    return task.contractions[0]


def block_threads(config: Config) -> int:
    """Return the number of threads of a block."""
    return (int(config["block_m"]) // int(config["thread_m"])) * (int(config["block_n"]) // int(config["thread_n"]))


def workgroup_bytes(config: Config) -> int:
    """Return the workgroup memory of a block, in bytes."""
    if not config["staged"]:
        return 0
    return F32_BYTES * int(config["block_k"]) * (int(config["block_m"]) + int(config["block_n"]))
