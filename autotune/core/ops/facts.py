"""Facts of a program, as plain data: its ops and what they touch, its producers and consumers, the values it takes."""

from dataclasses import dataclass, field

from autotune.core.ops.op import ProgramOp

LINE = 64  # bytes of a cache line


@dataclass(frozen=True)
class Edge:
    """A value between two structured ops.

    Attributes:
        producer: Number of the op that makes it.
        reader: Number of the consumer.
        why_apart: Why the two are not computed together; empty where they are.
    """

    producer: int
    reader: int
    why_apart: str = ""


@dataclass(frozen=True)
class ValueFacts:
    """Values that an op gave in one evaluation in float64, over all its executions.

    Attributes:
        op: Number of the op.
        low: Smallest.
        high: Largest.
        least: Smallest magnitude besides zero; 0 where all are zero.
        errors: Largest change of an output, as a share of that output's largest magnitude, where this value alone is
            rounded to an element type; by its name. Empty where it was not tried.
    """

    op: int
    low: float
    high: float
    least: float
    errors: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class ProgramFacts:
    """What was read off a program.

    Attributes:
        ops: Structured ops in the order of the text.
        edges: Values between them.
        before: Number of structured ops before element-wise neighbours became one op.
        static: Number of tensors of which every size is known.
        open: Tensors with a size known at run time only, as types.
        values: Values of the ops, where they could be evaluated.
        why_not: Why values are missing, where they are.
    """

    ops: tuple[ProgramOp, ...]
    edges: tuple[Edge, ...] = ()
    before: int = 0
    static: int = 0
    open: tuple[str, ...] = ()
    values: tuple[ValueFacts, ...] = field(default=())
    why_not: str = ""
