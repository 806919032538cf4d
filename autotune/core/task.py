"""`Task`: a distinct tunable op or fusion group of a payload, as a payload of its own.

`payload/` and `schedules/` are written against these types and those of `core/payload.py`. MLIR is kept as text, so
that everything here can be pickled, hashed, and imported without `mlir`.
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
        ops: Root, which carries the tag, then its producers, every consumer before its producers.
        occurrences: Number of ops of the whole module that carry the tag.
        count: Number of times one call of the whole module executes an op of the task.
        result_type: `Payload.result_type` of the whole: precision beyond that type is not visible.
        narrow: Whether both operands of its contractions have 16 bits by the model's own types.
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
        """Multiply-adds that no schedule can avoid, counted as two; of a product under a causal mask, about half.

        Operations in f64 count twice: the peak rate is that of f32, and a vector holds half as many f64.
        """
        if self.tag == WHOLE:
            return self.payload.flops
        return sum(op.flops * (2 if is_double(op) else 1) for op in self.ops if op.has_products)

    @property
    def root(self) -> Op:
        """Root op, whose results are the task's results."""
        return self.ops[0]

    @property
    def nest(self) -> LoopNest:
        """Iteration space of the root."""
        return self.root.nest

    @property
    def is_group(self) -> bool:
        """Whether it has several ops."""
        return len(self.ops) > 1

    @property
    def contraction(self) -> Contraction | None:
        """Sizes and layout, if it is a single contraction; else `None`."""
        return None if self.is_group else self.root.contraction

    @property
    def grows(self) -> bool:
        """Whether it has a loop with a dynamic trip count."""
        return any(op.nest.growing for op in self.ops)

    @property
    def dtype(self) -> str:
        """Widest element type of its contractions; ``f32`` if it has none."""
        return "f64" if any(map(is_double, self.ops)) else "f32"

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """Its contractions, in program order."""
        return tuple(op.contraction for op in reversed(self.ops) if op.contraction)


def is_double(op: Op) -> bool:
    """Return whether an op is a contraction of f64."""
    return op.contraction is not None and op.contraction.dtype == "f64"
