"""Products on a GPU: a tile of C a block, a tile of that a thread, sums in registers, A and B through workgroup memory.

    for block (y, x):                                       grid of m / block_m by n / block_n
      for k in steps of block_k:
        workgroup a = A[block rows, k], b = B[k, block columns]     (if staged), a barrier
        for thread (y, x): c[thread_m, thread_n] += a b             rows of vectors, unrolled; a barrier

Every size divides the next one: a size that is prime has tiles of 1 or of itself.
"""

from dataclasses import dataclass
from math import gcd

from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.script import GpuScript, widest_vector
from autotune.contrib.gpu.tiles import F32_BYTES, divisors, nearest
from autotune.core.errors import ScheduleError
from autotune.core.ops.op import Contraction
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task

BLOCKS, STEPS, TILES = (1, 2, 4, 8, 16, 32, 64, 128), (4, 8, 16, 32), (1, 2, 4, 8)
SQUARE = 64  # rows and columns of a block, by default
MOST_SUMS = 64  # of a thread, each in a register
MOST_UNROLLED = 4  # steps of k in the body of the innermost loop


@dataclass(frozen=True)
class GpuMatmul:
    """The family of plain products in f32, whatever their sizes."""

    name: str = "matmul"

    def covers(self, task: Task) -> bool:
        """A product alone, its operands as they are written, summed from zero."""
        product = task.contraction
        plain = product is not None and not (product.transposed_a or product.transposed_b or product.batched)
        return plain and product is not None and product.zeroed and product.dtype == "f32" and not product.stored_b

    def space(self, task: Task, device: Device) -> Space:
        """Tiles that divide the sizes, and what the device has room for."""
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
            ),
        )

    def default(self, task: Task, device: Device) -> Config:
        """Blocks of 64 by 64 and tiles of 4 by 4, twice as high where that leaves a block for each multiprocessor.

        As far as the sizes allow: every tile divides the next larger one.
        """
        product, space = contraction_of(task), self.space(task, device)
        high = 2 if product.m * product.n >= 2 * SQUARE * SQUARE * device.cores else 1
        values = {knob.name: [int(value) for value in knob.values] for knob in space.knobs}
        chosen: dict[str, int | str | bool] = {"staged": True, "block_k": nearest(values["block_k"], 16)}
        for dim, size, times in (("m", product.m, high), ("n", product.n, 1)):
            tile = nearest(values[f"thread_{dim}"], 4 * times)
            blocks = [block for block in values[f"block_{dim}"] if block % tile == 0]
            chosen |= {f"thread_{dim}": tile, f"block_{dim}": nearest(blocks, min(size, SQUARE * times))}
        config = {knob.name: chosen[knob.name] for knob in space.knobs}
        return config if space.broken_constraint(config) is None else next(space.configs())

    def build(self, task: Task, config: Config, device: Device) -> str:
        """The whole transform script of a config."""
        script = GpuScript()
        block = [int(config[f"block_{dim}"]) for dim in "mnk"]
        thread = [int(config["thread_m"]), int(config["thread_n"])]
        op = script.match(task.tag)
        fill = script.result("fill", f"transform.get_producer_of_operand {op}[2]")
        tiled, blocks = script.tile_blocks(op, block[:2])
        script.fuse(fill, blocks)
        if block[2] < contraction_of(task).k:
            tiled = script.tile_for(tiled, [0, 0, block[2]])
        if config["staged"]:
            script.stage(tiled, "f32", 3, keep=2)
        script.bufferize()
        threads = [block[0] // thread[0], block[1] // thread[1]]
        script.spread(script.ops("linalg.fill"), thread)
        if config["staged"]:
            a, b = script.split(script.ops("linalg.copy"), 2)
            script.spread(a, [thread[0], block[2] // gcd(block[2], threads[1])])
            script.spread(b, [block[2] // gcd(block[2], threads[0]), thread[1]])
        tile = script.tile_threads(script.ops("linalg.matmul"), thread)
        unrolled = widest_vector(block[2], MOST_UNROLLED)
        if unrolled < block[2]:
            tile = script.tile_for(tile, [0, 0, unrolled])
        script.vectorize(tile, [*thread, unrolled], [1, widest_vector(thread[1]), unrolled], named=True)
        script.launch([threads[1], threads[0], 1])
        return script.text


def contraction_of(task: Task) -> Contraction:
    """The product that a covered task is.

    Raises:
        ScheduleError: The task is none.
    """
    if task.contraction is None:
        raise ScheduleError(f"a task must be a product, {task.tag} is not; check `covers` first")
    return task.contraction


def block_threads(config: Config) -> int:
    """Threads of a block."""
    return (int(config["block_m"]) // int(config["thread_m"])) * (int(config["block_n"]) // int(config["thread_n"]))


def workgroup_bytes(config: Config) -> int:
    """Bytes of workgroup memory of a block."""
    if not config["staged"]:
        return 0
    return F32_BYTES * int(config["block_k"]) * (int(config["block_m"]) + int(config["block_n"]))
