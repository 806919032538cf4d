"""Families for bf16 and int8 products, alone or in a group: the nest of a matmul over words of packed lanes.

A constant B is rounded by columns and stored in panels of words before any call; any other B is rounded in the call,
like A, which is rounded by rows. Tiling and fusion are those of the f32 families; a register tile is lowered by
`compiler/passes/dots.py`. Products of a batch are computed one at a time (`compiler/passes/narrow.py`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, LoopNest, Op
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import NeededRewrite, Rewrites
from autotune.core.precision import (
    BF16,
    BF16X2,
    BF16X3,
    BYTES,
    DOTS,
    INT8,
    INT16,
    TILE_BF16,
    TILE_BF16X2,
    TILE_BF16X3,
    TILE_BYTES,
    TILE_INT8,
    Precision,
)
from autotune.core.space import Config, Knob, Space, Value
from autotune.core.task import Task
from schedules.fused import FUSED
from schedules.group import ROUNDING
from schedules.matmul import MATMUL
from schedules.matmul_model import blocks_of_tiles


@dataclass(frozen=True)
class OfPrecision(Family):
    """Base of the families whose operands are rounded to a precision.

    Attributes:
        precision: Precision that operands are rounded to.
        fallback: Whether the family covers tasks that no other does; never.
    """

    precision: Precision
    fallback: bool = False

    @property
    def specific(self) -> int:
        """Priority: exact families come before the families of any op, matrix units before vectors."""
        return 1 + self.precision.by_tiles if self.precision.exact else 0

    @property
    def error(self) -> float:
        """Relative rounding error of operands, by which alternatives of a task are ranked."""
        return self.precision.error

    @property
    def lacking(self) -> str:
        """CPU feature that this machine lacks; empty if none."""
        return self.precision.lacking

    def runs_on(self, machine: Machine) -> bool:
        """Return whether the machine has 512-bit vectors and a matrix unit if needed; a program checks more on load."""
        return machine.isa == "avx512f" and (bool(machine.tiles) or not self.precision.by_tiles)


@dataclass(frozen=True)
class Narrow(OfPrecision):
    """Family of contractions in one precision."""

    @property
    def name(self) -> str:
        """Name of the precision."""
        return self.precision.name

    @property
    def summary(self) -> str:
        """Line in ``autotune list``."""
        return f"Contractions with {self.precision.summary}."

    @property
    def asked(self) -> bool:
        """Whether it must be requested: vectors need as many products per word as its values would need in f32."""
        return not self.precision.by_tiles and len(self.precision.products) >= self.precision.values

    def covers(self, task: Task) -> bool:
        """Return whether the products of the task can be of this precision, alone or in a group that `FUSED` covers."""
        whole = task.contractions
        if not whole or not all(map(self.takes, whole)) or task.grows or (self.precision.exact and self.lacking):
            return False
        rows, length = self.precision.worth
        if self.precision.exact and any(c.m < rows or c.k < length for c in whole):
            return False  # an exact family is the default wherever it covers a task
        if not (FUSED if task.is_group else MATMUL).covers(task):
            return False
        if any(c.batched for c in whole) and not all(map(is_of_matrices, task.ops)):
            return False
        # the producer of an operand rounds it where it is computed: panels of a weight and i8 have no lowering for that
        return not feeds(task.ops) or not (self.precision.most or any(c.constant_b for c in whole))

    def takes(self, c: Contraction) -> bool:
        """Return whether a contraction's operands can be rounded to this precision."""
        stored = not c.stored_b or (c.constant_b and self.precision.reads_stored(c.stored_b))
        plain = c.zeroed and not c.transposed_a and stored
        plain &= (c.constant_b and not c.batched) or self.precision.packs_in_call
        return plain and c.dtype == ("i8" if self.precision.exact else "f32") and c.k <= self.precision.most_k

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the space of the f32 family, with the knobs fixed that packed lanes leave no choice for."""
        family, word_task = self.inner(task)
        space = family.space(word_task, machine)
        packed = word_task.contractions[0].constant_b
        return replace(space, knobs=tuple(fixed(knob, packed=packed) for knob in space.knobs))

    def default(self, task: Task, machine: Machine) -> Config:
        """Return the default of the f32 family, with the fixed values, adjusted until it satisfies the constraints."""
        family, word_task = self.inner(task)
        space = self.space(task, machine)
        preferred = dict(family.default(word_task, machine))
        if self.precision.by_tiles and len(word_task.contractions) == 1:
            preferred |= blocks_of_tiles(word_task.contractions[0], preferred, space, machine)
        only = {knob.name: knob.values[0] for knob in space.knobs if len(knob.values) == 1}
        for config in near({**preferred, **only}, space):
            if space.broken_constraint(config) is None:
                return config
        return next(space.configs())

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Return the script of the f32 family for products of words."""
        family, word_task = self.inner(task)
        return family.build(word_task, config, machine)

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Return the rewrites: panels of words as wide as the register tile, and the lowering to dot products."""
        family, word_task = self.inner(task)
        dots = NeededRewrite(*DOTS, why=f"operands rounded to {self.name}")
        rewrites = family.rewrites(word_task, config)
        return replace(rewrites, precision=self.name, needed=(*rewrites.needed, dots))

    def inner(self, task: Task) -> tuple[Family, Task]:
        """Return the family that writes the nest, and the task in words of packed lanes.

        Raises:
            ScheduleError: The task has no such products.
        """
        if not self.covers(task):
            raise ScheduleError(f"schedule '{self.name}' needs one product of f32, {task.tag} has none that it takes")
        batched = any(c.batched for c in task.contractions)
        matrices = map(of_one_matrix, task.ops) if batched else task.ops
        ops = with_roundings([self.of_words(op) for op in matrices])
        return FUSED if task.is_group else MATMUL, replace(task, ops=ops)

    def of_words(self, op: Op) -> Op:
        """Return an op of the task in words, never online; a product writes all of C, which needs no fill."""
        op = replace(op, online_loop=None)
        if op.contraction is None:
            return op
        return replace(op, contraction=self.in_words(op.contraction), filled=None)

    def in_words(self, c: Contraction) -> Contraction:
        """Return a product over words of packed lanes."""
        words = self.precision.words(c.k)
        return replace(c, k=words, transposed_b=False, zeroed=False, stored_b="", precision=self.name)


def is_of_matrices(op: Op) -> bool:
    """Return whether an op can be computed one matrix of a batch at a time: it reads whole slices in loop order."""
    return not op.captured and all(None not in each.loops for each in op.operands if not each.is_scalar)


def of_one_matrix(op: Op) -> Op:
    """Return an op without its batch loop."""
    nest = LoopNest(op.nest.sizes[1:], op.nest.iterators[1:])
    contraction = replace(op.contraction, batch=1, batched=False) if op.contraction else None
    masked = None if op.masked_loop is None else op.masked_loop - 1
    return replace(op, nest=nest, contraction=contraction, masked_loop=masked)


def feeds(ops: Sequence[Op]) -> bool:
    """Return whether the result of an op is an operand of a product in the task."""
    return any(number and ops[op.reader].contraction is not None for number, op in enumerate(ops))


def with_roundings(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the task's ops with a rounding op inserted between each product and the producer of its A."""
    result: list[Op] = []
    numbers: dict[int, int] = {}  # position of each op in the result
    for number, op in enumerate(ops):
        reader = numbers[op.reader] if number else 0
        consumer = result[reader].contraction if number else None
        if consumer is not None:
            rounding = LoopNest((consumer.m, consumer.k, op.nest.sizes[-1]), ("parallel", "parallel", "reduction"))
            result.append(Op(rounding, reader=reader, kind=ROUNDING, masked_loop=op.masked_loop))
            reader = len(result) - 1
        numbers[number] = len(result)
        result.append(replace(op, reader=reader))
    return tuple(result)


def fixed(knob: Knob, *, packed: bool) -> Knob:
    """Return a knob as it is for words: B in panels, whole k, whole vectors."""
    only: dict[str, tuple[Value, ...]] = {
        "pack_b": ("beforehand" if packed else "panels",),
        "tile_k": (0,),
        "unroll_k": (1,),
        "prefetch": (False,),
        "vector_width": knob.values[:1],  # the widest
    }
    return replace(knob, values=only.get(base_of(knob.name), knob.values))


def base_of(name: str) -> str:
    """Return a knob's name without the suffix of a group's contraction."""
    return re.sub(r"_\d+$", "", name)


def near(config: dict[str, Value], space: Space) -> Iterator[dict[str, Value]]:
    """Yield a config in every loop order, its own first, then with successively narrower register tiles.

    Fixed knobs may remove a loop. Since k is whole, the panel of a deep product must be narrow to stay in L2.
    """
    values = {knob.name: knob.values for knob in space.knobs}
    orders = ({}, *({"order": order} for order in values.get("order", ())))  # a group has no knob of that name
    widths = [name for name in values if base_of(name) == "register_n"]
    narrower = sorted({int(value) for name in widths for value in values[name]}, reverse=True)
    for most in (max(narrower), *narrower):
        narrow = {name: most for name in widths if most < int(config[name]) and most in values[name]}
        for order in orders:
            yield {**config, **narrow, **order}


NARROW_INT16, NARROW_BF16, NARROW_INT8 = Narrow(INT16), Narrow(BF16), Narrow(INT8)
NARROW_BF16X2, NARROW_BF16X3 = Narrow(BF16X2), Narrow(BF16X3)
TILED_BF16, TILED_BF16X2, TILED_BF16X3 = Narrow(TILE_BF16), Narrow(TILE_BF16X2), Narrow(TILE_BF16X3)
TILED_INT8 = Narrow(TILE_INT8)
NARROW_BYTES, TILED_BYTES = Narrow(BYTES), Narrow(TILE_BYTES)
