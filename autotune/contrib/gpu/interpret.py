"""Interpreter of kernels in NumPy: each operation runs for all threads at once, and a `Shadow` records each access.

It detects what no driver reports: data races, and barriers that only some threads of a block reach. It also computes
the results and counts the operations of one block. It shares nothing with the backends but the kernel's text.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from mlir import ir

from autotune.compiler.ir.module import context, every_op, parse
from autotune.contrib.gpu.counts import WARP, WORD_BYTES, BlockCounts, bank_cycles, sectors_touched
from autotune.contrib.gpu.kernel import Kernel
from autotune.contrib.gpu.shadow import Race, Shadow, ThreadAccess
from autotune.core.errors import CompileError
from autotune.core.payload import DTYPES, Array

Mask = npt.NDArray[np.bool_]
Value = Any  # a scalar that is uniform over threads, or an array of (threads,) or (threads, vector elements)
MOST_BLOCKS = 16  # of a larger grid, evenly spaced blocks are run, including the first and the last

WHOLE: dict[str, Callable[..., Value]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": operator.floordiv,
    "arith.divsi": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.remsi": operator.mod,
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.maxui": np.maximum,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.index_cast": lambda a: a,
}
REAL: dict[str, Callable[..., Value]] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.negf": operator.neg,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "math.absf": np.abs,
    "math.copysign": np.copysign,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.roundeven": np.rint,
    "math.isfinite": np.isfinite,
    "math.isinf": np.isinf,
    "math.isnan": np.isnan,
}
SPECIAL: dict[str, Callable[..., Value]] = {
    "arith.divf": np.true_divide,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.exp": np.exp,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log2": np.log2,
    "math.powf": np.power,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.sin": np.sin,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
}
CONVERTED = tuple(f"arith.{name}" for name in ("bitcast", "extui", "fptosi", "fptoui", "sitofp", "trunci", "uitofp"))
SIGNED = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
COMPARED: dict[int, Callable[..., Value]] = dict(enumerate((*SIGNED, *SIGNED[2:])))  # of arith.cmpi
ORDERED: dict[int, Callable[..., Value]] = {  # of arith.cmpf; predicates from 8 on are unordered: true for NaN
    **dict(enumerate((operator.eq, operator.gt, operator.ge, operator.lt, operator.le), 1)),
    6: lambda a, b: (a < b) | (a > b),
    7: lambda a, b: (a == a) & (b == b),  # noqa: PLR0124 - NaN differs from itself
    8: lambda a, b: np.logical_not((a < b) | (a > b)),
    9: lambda a, b: np.logical_not(a <= b),
    10: lambda a, b: np.logical_not(a < b),
    11: lambda a, b: np.logical_not(a >= b),
    12: lambda a, b: np.logical_not(a > b),
    13: operator.ne,
    14: lambda a, b: (a != a) | (b != b),  # noqa: PLR0124
}


@dataclass(frozen=True)
class ThreadRun:
    """The result of interpreting a kernel.

    Attributes:
        race: Description of a race, or of a barrier that some threads miss; empty if there is none.
        outputs: Arrays of the kernel's arguments after the run, in its order.
        written: Mask of the written elements of each array.
        blocks: Number of blocks that were run.
        counts: Operation counts of the first block.
    """

    race: str
    outputs: tuple[Array, ...]
    written: tuple[Array, ...]
    blocks: int
    counts: BlockCounts


def interpret(kernel: Kernel, arrays: Sequence[Array], most_blocks: int = MOST_BLOCKS) -> ThreadRun:
    """Interpret blocks of a kernel.

    Args:
        kernel: Kernel to run.
        arrays: Arrays of its arguments, in its order; they are copied, not modified.
        most_blocks: Maximum number of blocks to run.

    Raises:
        CompileError: Stage ``verify``: the kernel has an unsupported operation.
    """
    blocks = chosen_blocks(kernel.blocks, most_blocks)
    with context(), np.errstate(all="ignore"):
        module = parse(kernel.text, "kernel")
        function = next(op for op in every_op(module) if op.name == "gpu.func")
        threads = Threads(kernel, blocks)
        entry = function.regions[0].blocks[0]
        for argument, array in zip(entry.arguments, arrays, strict=True):
            threads.values[argument] = ThreadMemory(f"argument {argument.arg_number}", array.copy(), shared=False)
        try:
            threads.run(entry, None)
        except RaceError as error:
            return ThreadRun(str(error), (), (), len(blocks), threads.counts)
        memories = [threads.values[argument] for argument in entry.arguments]
    written = tuple(memory.shadow.written.reshape(memory.data.shape) for memory in memories)
    return ThreadRun("", tuple(memory.data for memory in memories), written, len(blocks), threads.counts)


def blank_arrays(kernel: Kernel) -> list[Array]:
    """Return zero-filled arrays for a kernel's arguments, in its order."""
    with context():
        module = parse(kernel.text, "kernel")
        function = next(op for op in every_op(module) if op.name == "gpu.func")
        types = [ir.MemRefType(argument.type) for argument in function.regions[0].blocks[0].arguments]
        return [np.zeros(kind.shape, DTYPES[str(kind.element_type)]) for kind in types]


def chosen_blocks(count: int, most: int) -> list[int]:
    """Return the numbers of the blocks to run: all, or `most` evenly spaced ones.

    Example:
        >>> chosen_blocks(4, 16), chosen_blocks(100, 4)
        ([0, 1, 2, 3], [0, 33, 66, 99])
    """
    if count <= most:
        return list(range(count))
    return [int(number) for number in np.linspace(0, count - 1, most).round()]


class RaceError(Exception):
    """Threads race, or only some threads of a block reach a barrier."""


@dataclass
class ThreadMemory:
    """A buffer in global memory, or the workgroup buffers of all blocks.

    Attributes:
        name: Human-readable name.
        data: Array of its elements; of workgroup memory, the first dimension is the block.
        shared: Whether it is workgroup memory, which each block has its own of.
        shadow: Record of its accesses.
    """

    name: str
    data: Array
    shared: bool
    shadow: Shadow = field(init=False)

    def __post_init__(self) -> None:
        self.shadow = Shadow(self.data.size)


class Threads:
    """The state of all threads, which execute operations in lockstep.

    Args:
        kernel: Kernel to run.
        blocks: Numbers of the blocks to run.

    Attributes:
        values: Runtime value of every SSA value.
        counts: Operation counts of the first block.
    """

    def __init__(self, kernel: Kernel, blocks: Sequence[int]) -> None:
        self.kernel, self.numbers = kernel, blocks
        lanes = np.arange(kernel.threads * len(blocks))
        self.lanes, self.slots = lanes, lanes // kernel.threads
        self.in_block, self.block = lanes % kernel.threads, np.asarray(blocks)[self.slots]
        self.epochs = np.zeros(len(blocks), np.int64)
        self.values: dict[ir.Value, Value] = {}
        self.counts = BlockCounts()
        self.first = kernel.threads  # lanes below this belong to the first block, which is counted

    def run(self, block: ir.Block, mask: Mask | None) -> list[Value]:
        """Run the operations of an MLIR block in the threads of a mask, and return the values that it yields."""
        for op in block.operations:
            name = op.operation.name
            if name in ("scf.yield", "gpu.return"):
                return [self.values[value] for value in op.operands]
            self.step(op.operation, name, mask)
        return []

    def step(self, op: ir.Operation, name: str, mask: Mask | None) -> None:
        """Run one operation."""
        operands = [self.values[value] for value in op.operands]
        if name in WHOLE or name == "arith.cmpi":
            function = WHOLE.get(name) or COMPARED[ir.IntegerAttr(op.attributes["predicate"]).value]
            self.give(op, function(*operands), mask, "other")
        elif name in CONVERTED:
            self.give(op, converted(name, operands[0], op.results[0].type), mask, "other")
        elif name in REAL or name in SPECIAL or name == "arith.cmpf":
            function = REAL.get(name) or SPECIAL.get(name) or ORDERED[ir.IntegerAttr(op.attributes["predicate"]).value]
            self.give(op, function(*operands), mask, "special" if name in SPECIAL else "arithmetic")
        elif name in HANDLERS:
            HANDLERS[name](self, op, operands, mask)
        else:
            raise CompileError("verify", f"a kernel must hold ops that can be checked for races, {name} cannot")

    def give(self, op: ir.Operation, value: Value, mask: Mask | None, kind: str = "") -> None:
        """Set the result of an operation and add it to the given count; a uniform value is not counted."""
        self.values[op.results[0]] = value
        if kind and np.ndim(value):
            width = value.shape[1] if value.ndim > 1 else 1
            self.add(kind, self.warps(mask) * width)
            self.counts.steps += self.warps(mask)

    def add(self, kind: str, number: int) -> None:
        """Add to a count; special and fused instructions are also arithmetic ones."""
        setattr(self.counts, kind, getattr(self.counts, kind) + number)
        if kind in ("special", "fused"):
            self.counts.arithmetic += number

    def warps(self, mask: Mask | None) -> int:
        """Return the number of warps of the first block with an active thread."""
        if mask is None:
            return -(-self.first // WARP)
        return len(np.unique(np.flatnonzero(mask[: self.first]) // WARP))

    def spread(self, value: Value) -> Array:
        """Broadcast a uniform value to all threads."""
        array = np.asarray(value)
        per_thread: Array = np.broadcast_to(array, (len(self.lanes),)) if array.ndim == 0 else array
        return per_thread

    def touch(self, memory: ThreadMemory, at: Sequence[Value], width: int, mask: Mask | None, *, writes: bool) -> Array:
        """Record an access of `width` elements along the last dimension; return the linear indices of active threads.

        Raises:
            RaceError: The access races with another one, or is out of bounds.
        """
        shape = memory.data.shape[1:] if memory.shared else memory.data.shape
        flat: Value = self.slots if memory.shared else 0
        for size, index in zip(shape, at, strict=True):
            flat = flat * size + index
        flat = self.spread(flat)
        self.check_inside(memory, shape, at, width, mask)
        elements = flat[:, None] + np.arange(width)
        active = slice(None) if mask is None else mask
        accessed: Array = elements[active]
        lanes, slots = (np.repeat(part[active], width) for part in (self.lanes, self.slots))
        access = ThreadAccess(accessed.reshape(-1), lanes, slots, self.epochs[slots])
        race = (memory.shadow.write if writes else memory.shadow.read)(access)
        if race is not None:
            raise RaceError(self.describe(memory, race, writes=writes))
        self.count_access(memory, access, mask)
        return accessed

    def check_inside(
        self, memory: ThreadMemory, shape: Sequence[int], at: Sequence[Value], width: int, mask: Mask | None
    ) -> None:
        """Check that an access is in bounds.

        Raises:
            RaceError: An index is out of bounds.
        """
        for number, (size, index) in enumerate(zip(shape, at, strict=True)):
            active = self.spread(index) if mask is None else self.spread(index)[mask]
            end = width if number == len(shape) - 1 else 1
            if active.size and (active.min() < 0 or active.max() + end > size):
                raise RaceError(f"{memory.name} is accessed outside of its {'x'.join(map(str, shape))} elements")

    def count_access(self, memory: ThreadMemory, access: ThreadAccess, mask: Mask | None) -> None:
        """Count an access of the first block's threads."""
        in_first = access.threads < self.first
        warps, words = access.threads[in_first] // WARP, access.elements[in_first] * memory.data.itemsize // WORD_BYTES
        self.counts.moved += self.warps(mask)
        self.counts.steps += self.warps(mask)
        if memory.shared:
            self.counts.shared += bank_cycles(warps, words)
        else:
            self.counts.fetched += self.warps(mask)
            self.counts.sectors += sectors_touched(warps, words)

    def describe(self, memory: ThreadMemory, race: Race, *, writes: bool) -> str:
        """Describe a race in a sentence."""
        shape = memory.data.shape
        at = [int(index) for index in np.unravel_index(race.element, shape)]
        element = f"{memory.name}{at[1:] if memory.shared else at}"
        first, second = (self.thread_name(lane) for lane in race.threads)
        how = (
            "both write"
            if race.writes
            else ("one reads and the other writes" if writes else "one writes and the other reads")
        )
        return f"threads race: {first} and {second}, no barrier between them: {how} {element}"

    def thread_name(self, lane: int) -> str:
        """Return a human-readable name of a thread."""
        if lane < 0:
            return "another one"
        return f"thread {self.in_block[lane]} of block {self.block[lane]}"

    def axis(self, op: ir.Operation, numbers: Array, sizes: Sequence[int]) -> Array:
        """Return the coordinate of linear numbers along the axis of an operation's ``dimension`` attribute."""
        axis = "xyz".index(str(op.attributes["dimension"]).split()[-1].rstrip(">"))
        x, y, _ = sizes
        return (numbers // (1, x, x * y)[axis]) % sizes[axis]


def thread_id(threads: Threads, op: ir.Operation, _: list[Value], mask: Mask | None) -> None:
    """`gpu.thread_id`."""
    threads.give(op, threads.axis(op, threads.in_block, threads.kernel.block), mask)


def block_id(threads: Threads, op: ir.Operation, _: list[Value], mask: Mask | None) -> None:
    """`gpu.block_id`."""
    threads.give(op, threads.axis(op, threads.block, threads.kernel.grid), mask)


def constant(threads: Threads, op: ir.Operation, _: list[Value], mask: Mask | None) -> None:
    """`arith.constant`, of a scalar or a vector."""
    attribute, result_type = op.attributes["value"], op.results[0].type
    if isinstance(result_type, ir.VectorType):
        width, dtype = (
            ir.VectorType(result_type).shape[0],
            DTYPES.get(str(ir.VectorType(result_type).element_type), np.dtype(bool)),
        )
        splat, dense = attribute.is_splat, ir.DenseFPElementsAttr if dtype.kind == "f" else ir.DenseIntElementsAttr
        numbers = [attribute.get_splat_value().value] * width if splat else list(dense(attribute))
        threads.give(op, np.broadcast_to(np.array(numbers, dtype), (len(threads.lanes), width)), mask)
        return
    number = attribute.value
    threads.give(op, DTYPES[str(result_type)].type(number) if str(result_type) in DTYPES else number, mask)


def barrier(threads: Threads, op: ir.Operation, _: list[Value], mask: Mask | None) -> None:
    """`gpu.barrier`, which all threads of a block must reach, or none."""
    count = len(threads.numbers)
    arrived = np.bincount(threads.slots[slice(None) if mask is None else mask], minlength=count)
    if ((arrived != 0) & (arrived != threads.kernel.threads)).any():
        raise RaceError("all threads of a block must reach a barrier, or none; some miss one")
    threads.epochs = threads.epochs + (arrived > 0)
    threads.counts.barriers += threads.warps(mask)
    threads.counts.steps += threads.warps(mask)


def alloc(threads: Threads, op: ir.Operation, _: list[Value], mask: Mask | None) -> None:
    """`memref.alloc` of uninitialized workgroup memory; in a loop, each iteration gets the same buffer."""
    memref_type = ir.MemRefType(op.results[0].type)
    if op.results[0] not in threads.values:
        dtype = DTYPES[str(memref_type.element_type)]
        data = np.full((len(threads.numbers), *memref_type.shape), np.nan if dtype.kind == "f" else 0, dtype)
        threads.values[op.results[0]] = ThreadMemory("workgroup memory", data, shared=True)


def load(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`memref.load` and `vector.load`."""
    memory, *at = operands
    result_type = op.results[0].type
    width = ir.VectorType(result_type).shape[0] if isinstance(result_type, ir.VectorType) else 1
    elements = threads.touch(memory, at, width, mask, writes=False)
    read = memory.data.reshape(-1)[elements]
    loaded = np.zeros((len(threads.lanes), width), memory.data.dtype)
    loaded[slice(None) if mask is None else mask] = read
    threads.give(op, loaded if isinstance(result_type, ir.VectorType) else loaded[:, 0], mask)


def store(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`memref.store` and `vector.store`."""
    value, memory, *at = operands
    value_type = op.operands[0].type
    width = ir.VectorType(value_type).shape[0] if isinstance(value_type, ir.VectorType) else 1
    elements = threads.touch(memory, at, width, mask, writes=True)
    spread = threads.spread(value)[slice(None) if mask is None else mask]
    memory.data.reshape(-1)[elements] = spread.reshape(elements.shape)


def repeat(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`scf.for`; trip counts may differ between threads, and finished threads are masked off."""
    low, high, step, *carried = operands
    body = op.regions[0].blocks[0]
    induction_variable: Value = low
    while True:
        is_running = np.asarray(induction_variable < high)
        active = mask if is_running.ndim == 0 else (is_running if mask is None else is_running & mask)
        if not (is_running.all() if is_running.ndim == 0 else active is not None and active.any()):
            break
        for argument, value in zip(body.arguments, [induction_variable, *carried], strict=True):
            threads.values[argument] = value
        yielded = threads.run(body, active)
        carried = [merge_iteration(active, mask, new, old) for new, old in zip(yielded, carried, strict=True)]
        induction_variable = induction_variable + step
    for result, value in zip(op.results, carried, strict=True):
        threads.values[result] = value


def merge_iteration(inside: Mask | None, mask: Mask | None, new: Value, old: Value) -> Value:
    """Merge a loop-carried value after an iteration: threads that have left the loop keep the old one."""
    if inside is None or inside is mask:
        return new
    return np.where(inside[:, None] if np.ndim(new) > 1 else inside, new, old)


def choose(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`scf.if`; each branch runs in the threads that take it."""
    (condition,) = operands
    is_true = threads.spread(condition)
    sides = []
    for region, branch_mask in zip(op.regions, (is_true, ~is_true), strict=True):
        active = branch_mask if mask is None else branch_mask & mask
        blocks = list(region.blocks)
        sides.append(threads.run(blocks[0], active) if blocks and (active.any() or op.results) else [])
    for number, result in enumerate(op.results):
        first, second = (threads.spread(side[number]) for side in sides)
        threads.values[result] = np.where(is_true[:, None] if first.ndim > 1 else is_true, first, second)


def fma(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`vector.fma` and `math.fma`."""
    a, b, c = operands
    threads.give(op, a * b + c, mask, "fused")


def extract(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`vector.extract` of one element at a static position."""
    (position,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
    threads.give(op, operands[0][:, position], mask)


def broadcast(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`vector.broadcast` of a scalar."""
    width = ir.VectorType(op.results[0].type).shape[0]
    scalar = threads.spread(operands[0])
    threads.give(op, np.broadcast_to(scalar if scalar.ndim > 1 else scalar[:, None], (len(threads.lanes), width)), mask)


def gather(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`vector.from_elements`."""
    threads.give(op, np.stack([threads.spread(value) for value in operands], axis=1), mask)


def scatter(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`vector.to_elements`."""
    for number, result in enumerate(op.results):
        threads.values[result] = operands[0][:, number]


def pick(threads: Threads, op: ir.Operation, operands: list[Value], mask: Mask | None) -> None:
    """`arith.select`; a scalar condition selects whole vectors."""
    condition, then, otherwise = operands
    wide = max(np.ndim(then), np.ndim(otherwise)) > 1 and np.ndim(condition) == 1
    threads.give(op, np.where(condition[:, None] if wide else condition, then, otherwise), mask, "other")


def converted(name: str, value: Value, mlir_type: ir.Type) -> Value:
    """Convert a value to another type: `arith.bitcast` keeps the bits, others the number."""
    element = str(ir.VectorType(mlir_type).element_type if isinstance(mlir_type, ir.VectorType) else mlir_type)
    array, dtype = np.asarray(value), DTYPES.get(element, np.dtype(bool))
    return array.view(dtype) if name == "arith.bitcast" else array.astype(dtype)


Handler = Callable[[Threads, ir.Operation, list[Value], Mask | None], None]
HANDLERS: dict[str, Handler] = {
    "gpu.thread_id": thread_id,
    "gpu.block_id": block_id,
    "gpu.barrier": barrier,
    "arith.constant": constant,
    "arith.select": pick,
    "memref.alloc": alloc,
    "memref.load": load,
    "vector.load": load,
    "memref.store": store,
    "vector.store": store,
    "scf.for": repeat,
    "scf.if": choose,
    "vector.fma": fma,
    "math.fma": fma,
    "vector.extract": extract,
    "vector.broadcast": broadcast,
    "vector.from_elements": gather,
    "vector.to_elements": scatter,
}
