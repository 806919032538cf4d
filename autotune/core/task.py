"""The units worth tuning in a payload, each a payload of its own.

Together with `core/payload.py` these are the types that content (`payload/`, `schedules/`) is written against. MLIR
crosses them as text, so that everything here pickles to workers, hashes, and imports without `mlir`.
"""

from dataclasses import dataclass
from math import prod

from autotune.core.ops.loop_nest import Contraction, Lanes, LoopNest
from autotune.core.payload import Payload


@dataclass(frozen=True)
class Member:
    """One op of a task of several ops.

    Attributes:
        nest: Loops of the op.
        reader: Position, among the task's members, of an op that reads its result.
        operand: Number of the operand it is there.
        contraction: Sizes and layout, if the op is a contraction with loops in the order (batch,) m, n, k.
        filled: Number of the operand that is filled with a constant first, its destination; `None` if there is none.
        masked_loop: Position of a loop over columns of which a causal mask hides those behind the row's own: what is
            computed there changes no result. `None` if there is none.
        online_loop: Position of a loop over columns that may come block by block, since the group divides by the sum of
            a softmax in the end. `None` if there is none.
        lanes: Loops of its register tile, if the op does not vectorize as it is but reads windows.
        counts: Whether the op computes with the count of a loop that it reduces, as argmax does.
    """

    nest: LoopNest
    reader: int = 0
    operand: int = 0
    contraction: Contraction | None = None
    filled: int | None = None
    masked_loop: int | None = None
    online_loop: int | None = None
    lanes: Lanes | None = None
    counts: bool = False

    @property
    def in_strands(self) -> bool:
        """Whether partial results of a row may be reduced side by side: upstream counts on in none but the first."""
        return bool(self.nest.reduced) and not self.counts

    @property
    def has_products(self) -> bool:
        """Whether the op sums products: a contraction, or a convolution."""
        return self.contraction is not None or (self.lanes is not None and self.lanes.products)

    @property
    def flops(self) -> float:
        """What no schedule can leave out: products and their sums, else one operation a point."""
        if self.contraction is None:
            return prod(self.nest.sizes) * (2 if self.has_products else 1)
        if self.masked_loop is None:
            return float(self.contraction.flops)
        rows, columns = self.contraction.m, self.nest.sizes[self.masked_loop]
        seen = sum(min(row + 1, columns) for row in range(rows))
        return self.contraction.flops * seen / (rows * columns)


@dataclass(frozen=True)
class Task:
    """One distinct tunable unit of a payload, as a payload of its own.

    Attributes:
        tag: Value of the ``autotune.task`` attribute on the ops this task stands for.
        payload: The unit alone; its op carries the tag.
        nest: Loops of the task's op.
        ops: Number of ops of the whole module that carry the tag.
        count: Number of times one call of the whole module executes an op of the task.
        contraction: Sizes and layout, if the task is one contraction with loops in the order (batch,) m, n, k.
        members: Ops of a task in which several feed one: that one, the root, which carries the tag, then the others,
            every op before those that it reads. Empty for a task of one op.
        gathers: Whether the task reads elements of a tensor at indices that another one holds.
        vectorizes: Whether tiles of the task's op become vectors as they are: no windows, and simple reductions.
        lanes: Loops of the register tile of the task's op, if it reads windows; `None` of any other.
        turned: The loop, not the last one, along which an input lies side by side, where nothing is summed; `None` if
            there is none.
        filled: Number of the operand that the task's op is filled in with a constant first; `None` if there is none.
        periods: Steps of every loop after which an element-wise op that reads neighbours, with strides, or at indices
            that repeat, reads the same pattern again: tiles begin there. Empty of any other op.
        counts: Whether the task's op computes with the count of a loop that it reduces, as an argmax does.
    """

    tag: str
    payload: Payload
    nest: LoopNest
    ops: int = 1
    count: int = 1
    contraction: Contraction | None = None
    members: tuple[Member, ...] = ()
    gathers: bool = False
    vectorizes: bool = True
    lanes: Lanes | None = None
    filled: int | None = None
    turned: int | None = None
    periods: tuple[int, ...] = ()
    counts: bool = False

    @property
    def grows(self) -> bool:
        """Whether a trip count is known at run time only."""
        return any(nest.growing for nest in (self.nest, *(member.nest for member in self.members)))

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """Everything it contracts, in program order."""
        if self.contraction is not None:
            return (self.contraction,)
        return tuple(member.contraction for member in reversed(self.members) if member.contraction)
