"""The units worth tuning in a payload, each a payload of its own.

Together with `core/payload.py` these are the types that content (`payload/`, `schedules/`) is written against. MLIR
crosses them as text, so that everything here pickles to workers, hashes, and imports without `mlir`.
"""

from dataclasses import dataclass
from math import prod

from autotune.core.ops.loop_nest import Contraction, Lanes, LoopNest
from autotune.core.payload import Payload


@dataclass(frozen=True)
class StructuredOp:
    """A structured op of a task, as it was read when the payload was partitioned; schedules look at nothing else.

    Attributes:
        nest: Loops of the op.
        reader: Position, among the task's ops, of one that reads its result.
        operand: Number of the operand it is there.
        contraction: Sizes and layout, if the op is a contraction with loops in the order (batch,) m, n, k.
        filled: Number of the operand that is filled with a constant first, its destination; `None` if there is none.
        masked_loop: Position of a loop over columns of which a causal mask hides those behind the row's own: what is
            computed there changes no result. `None` if there is none.
        online_loop: Position of a loop over columns that may come block by block, since the group divides by the sum of
            a softmax in the end. `None` if there is none.
        lanes: Loops of its register tile, if the op does not vectorize as it is but reads windows.
        counts: Whether the op computes with the count of a loop that it reduces, as argmax does.
        gathers: Whether the op reads elements of a tensor at indices that another one holds.
        vectorizes: Whether tiles of the op become vectors as they are: no windows, and simple reductions.
        turned: The loop, not the last one, along which an input lies side by side, where nothing is summed; `None` if
            there is none.
        periods: Steps of every loop after which an element-wise op that reads neighbours, with strides, or at indices
            that repeat, reads the same pattern again: tiles begin there. Empty of any other op.
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
    gathers: bool = False
    vectorizes: bool = True
    turned: int | None = None
    periods: tuple[int, ...] = ()

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
        payload: The unit alone; its root carries the tag.
        ops: Root, which carries the tag, then the ops that feed it, every op before those that it reads.
        occurrences: Number of ops of the whole module that carry the tag.
        count: Number of times one call of the whole module executes an op of the task.
    """

    tag: str
    payload: Payload
    ops: tuple[StructuredOp, ...]
    occurrences: int = 1
    count: int = 1

    @property
    def root(self) -> StructuredOp:
        """The op that gives its results."""
        return self.ops[0]

    @property
    def nest(self) -> LoopNest:
        """Loops of the root."""
        return self.root.nest

    @property
    def is_group(self) -> bool:
        """Whether it is several ops."""
        return len(self.ops) > 1

    @property
    def contraction(self) -> Contraction | None:
        """Sizes and layout, if it is one contraction alone."""
        return None if self.is_group else self.root.contraction

    @property
    def grows(self) -> bool:
        """Whether a trip count is known at run time only."""
        return any(op.nest.growing for op in self.ops)

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """Everything it contracts, in program order."""
        return tuple(op.contraction for op in reversed(self.ops) if op.contraction)
