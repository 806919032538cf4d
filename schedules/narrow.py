"""Products in bf16 or int8, alone or in a group: the nest of a matmul, over words of values.

A B that is a weight is rounded by columns and stored in panels of words before any call, any other in the call, as A is
by rows. Tiles and fusing are those of the families for f32; a register tile is code of ours
(`compiler/passes/dots.py`). Products of a batch are multiplied one at a time (`compiler/passes/narrow.py`).
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
    """What families have in common whose operands are rounded to a precision.

    Attributes:
        precision: What operands are rounded to.
        fallback: Steps in where nothing else covers a task; never.
    """

    precision: Precision
    fallback: bool = False

    @property
    def specific(self) -> int:
        """Exact, it is before the families that compute anything, and by tiles before the one of vectors."""
        return 1 + self.precision.by_tiles if self.precision.exact else 0

    @property
    def error(self) -> float:
        """How coarsely operands are rounded: ways to compute a task are compared by it."""
        return self.precision.error

    @property
    def lacking(self) -> str:
        """What this CPU lacks; empty if nothing."""
        return self.precision.lacking

    def runs_on(self, machine: Machine) -> bool:
        """Dot products are of vectors of 512 bits; which of them, a program says to whom it is loaded by."""
        return machine.isa == "avx512f" and (bool(machine.tiles) or not self.precision.by_tiles)


@dataclass(frozen=True)
class Narrow(OfPrecision):
    """The family for one precision."""

    @property
    def name(self) -> str:
        """That of the precision."""
        return self.precision.name

    @property
    def asked(self) -> bool:
        """Where vectors multiply parts, a word's products take no less time than those of its values in f32."""
        return not self.precision.by_tiles and len(self.precision.products) >= self.precision.values

    def covers(self, task: Task) -> bool:
        """Products of f32, alone or in a group that the families for f32 cover."""
        whole = task.contractions
        if not whole or not all(map(self.takes, whole)) or task.grows or (self.precision.exact and self.lacking):
            return False
        rows, length = self.precision.worth
        if self.precision.exact and any(c.m < rows or c.k < length for c in whole):
            return False  # what is exact is the default wherever it is covered
        if not (FUSED if task.is_group else MATMUL).covers(task):
            return False
        if any(c.batched for c in whole) and not all(map(is_of_matrices, task.ops)):
            return False
        # what feeds a product is rounded where it is computed, which a weight's panels and bytes have no code for
        return not feeds(task.ops) or not (self.precision.most or any(c.constant_b for c in whole))

    def takes(self, c: Contraction) -> bool:
        """Whether a contraction has the operands that can be rounded."""
        stored = not c.stored_b or (c.constant_b and self.precision.reads_stored(c.stored_b))
        plain = c.zeroed and not c.transposed_a and stored
        plain &= (c.constant_b and not c.batched) or self.precision.packs_in_call
        return plain and c.dtype == ("i8" if self.precision.exact else "f32") and c.k <= self.precision.most_k

    def space(self, task: Task, machine: Machine) -> Space:
        """The knobs of the family for f32, those fixed that words leave no choice."""
        inner, of_words = self.inner(task)
        space = inner.space(of_words, machine)
        packed = of_words.contractions[0].constant_b
        return replace(space, knobs=tuple(fixed(knob, packed=packed) for knob in space.knobs))

    def default(self, task: Task, machine: Machine) -> Config:
        """That of the family for f32, with what is fixed."""
        inner, of_words = self.inner(task)
        space = self.space(task, machine)
        chosen = dict(inner.default(of_words, machine))
        if self.precision.by_tiles and len(of_words.contractions) == 1:
            chosen |= blocks_of_tiles(of_words.contractions[0], chosen, space, machine)
        only = {knob.name: knob.values[0] for knob in space.knobs if len(knob.values) == 1}
        for config in near({**chosen, **only}, space):
            if space.broken_constraint(config) is None:
                return config
        return next(space.configs())

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """The script of the family for f32, for products of words."""
        inner, of_words = self.inner(task)
        return inner.build(of_words, config, machine)

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Panels of words, as wide as the register tile; what is packed in the call has panels of its own."""
        inner, of_words = self.inner(task)
        dots = NeededRewrite(*DOTS, why=f"operands rounded to {self.name}")
        found = inner.rewrites(of_words, config)
        return replace(found, precision=self.name, needed=(*found.needed, dots))

    def inner(self, task: Task) -> tuple[Family, Task]:
        """The family that writes the nest, and the task as it sees it.

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
        """An op of the task, none online; a product writes all of C, which nothing fills."""
        op = replace(op, online_loop=None)
        if op.contraction is None:
            return op
        return replace(op, contraction=self.in_words(op.contraction), filled=None)

    def in_words(self, c: Contraction) -> Contraction:
        """A product of words."""
        words = self.precision.words(c.k)
        return replace(c, k=words, transposed_b=False, zeroed=False, stored_b="", precision=self.name)


def is_of_matrices(op: Op) -> bool:
    """Tell whether an op can be computed one matrix of a batch at a time: it reads whole slices, in order of loops."""
    return not op.captured and all(None not in each.loops for each in op.operands if not each.is_scalar)


def of_one_matrix(op: Op) -> Op:
    """An op without its loop over a batch."""
    nest = LoopNest(op.nest.sizes[1:], op.nest.iterators[1:])
    contraction = replace(op.contraction, batch=1, batched=False) if op.contraction else None
    masked = None if op.masked_loop is None else op.masked_loop - 1
    return replace(op, nest=nest, contraction=contraction, masked_loop=masked)


def feeds(ops: Sequence[Op]) -> bool:
    """Tell whether an op of a task gives a product what it multiplies."""
    return any(number and ops[op.reader].contraction is not None for number, op in enumerate(ops))


def with_roundings(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The ops of a task, between a product and what feeds its A the rounding of that."""
    found: list[Op] = []
    numbers: dict[int, int] = {}  # of ops, among those found
    for number, op in enumerate(ops):
        reader = numbers[op.reader] if number else 0
        by = found[reader].contraction if number else None
        if by is not None:
            rounding = LoopNest((by.m, by.k, op.nest.sizes[-1]), ("parallel", "parallel", "reduction"))
            found.append(Op(rounding, reader=reader, kind=ROUNDING, masked_loop=op.masked_loop))
            reader = len(found) - 1
        numbers[number] = len(found)
        found.append(replace(op, reader=reader))
    return tuple(found)


def fixed(knob: Knob, *, packed: bool) -> Knob:
    """A knob as it is for words: B in panels, before any call or in each, k whole, whole vectors."""
    only: dict[str, tuple[Value, ...]] = {
        "pack_b": ("beforehand" if packed else "panels",),
        "tile_k": (0,),
        "unroll_k": (1,),
        "prefetch": (False,),
        "vector_width": knob.values[:1],  # the widest
    }
    return replace(knob, values=only.get(base_of(knob.name), knob.values))


def base_of(name: str) -> str:
    """The name of a knob without the number of a group's contraction."""
    return re.sub(r"_\d+$", "", name)


def near(config: dict[str, Value], space: Space) -> Iterator[dict[str, Value]]:
    """A config with its loops in every order, its own first, then with ever narrower register tiles.

    What is fixed may leave a loop out; k is whole, so that a panel of a deep product must be narrow to stay in L2.
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
