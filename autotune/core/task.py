"""The units worth tuning in a payload, each a payload of its own.

Together with `core/payload.py` these are the types that content (`payload/`, `schedules/`) is written against. MLIR
crosses them as text, so that everything here pickles to workers, hashes, and imports without `mlir`.
"""

from dataclasses import dataclass

from autotune.core.ops.op import Contraction, LoopNest, Op
from autotune.core.payload import Payload
from autotune.core.task_names import readable_name

WHOLE = "whole"  # the tag of a payload that one script transforms as a whole


@dataclass(frozen=True)
class Task:
    """One distinct tunable unit of a payload, as a payload of its own.

    Attributes:
        tag: Value of the ``autotune.task`` attribute on the ops this task stands for.
        payload: The unit alone; its root carries the tag.
        ops: Root, which carries the tag, then the ops that feed it, every op before those that it reads.
        occurrences: Number of ops of the whole module that carry the tag.
        count: Number of times one call of the whole module executes an op of the task.
        result_type: `Payload.result_type` of the whole: what is beyond it nobody sees.
        narrow: Whether all that its matrices are multiplied with has 16 bits by the model's own types, as they do.
    """

    tag: str
    payload: Payload
    ops: tuple[Op, ...]
    occurrences: int = 1
    count: int = 1
    result_type: str = ""
    narrow: bool = False

    @property
    def name(self) -> str:
        """Name for people, such as ``matmul 128x768x3072 + bias + gelu, stored``."""
        return readable_name(self.tag, self.ops[::-1])

    @property
    def needed_flops(self) -> float:
        """Multiplications and additions that no schedule can leave out: of a causal product, half.

        Those of f64 count twice: the roof is that of f32, of which a vector holds twice as many.
        """
        if self.tag == WHOLE:
            return self.payload.flops
        return sum(op.flops * (2 if is_double(op) else 1) for op in self.ops if op.has_products)

    @property
    def root(self) -> Op:
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
    def dtype(self) -> str:
        """Widest element type of its contractions; ``f32`` if it has none."""
        return "f64" if any(map(is_double, self.ops)) else "f32"

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """Everything it contracts, in program order."""
        return tuple(op.contraction for op in reversed(self.ops) if op.contraction)


def is_double(op: Op) -> bool:
    """Tell whether an op is a contraction of f64."""
    return op.contraction is not None and op.contraction.dtype == "f64"
