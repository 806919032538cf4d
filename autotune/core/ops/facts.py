"""`ProgramFacts`: an analysis of a program as plain data: ops, producer-consumer edges, and ranges of values."""

from dataclasses import dataclass, field

from autotune.core.ops.op import ProgramOp

LINE = 64  # bytes of a cache line


@dataclass(frozen=True)
class Edge:
    """A producer-consumer edge between two structured ops.

    Attributes:
        producer: Number of the producer.
        reader: Number of the consumer.
        why_apart: Reason why the two are not fused; empty where they are.
    """

    producer: int
    reader: int
    why_apart: str = ""


@dataclass(frozen=True)
class ValueFacts:
    """Range of an op's result in one evaluation in float64, over all its executions.

    Attributes:
        op: Number of the op.
        low: Smallest value.
        high: Largest value.
        least: Smallest nonzero magnitude; 0 where all values are zero.
        errors: Pairs of an element type and the largest change of an output, relative to that output's largest
            magnitude, when this result alone is rounded to the type. Empty where it was not tried.
    """

    op: int
    low: float
    high: float
    least: float
    errors: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class ProgramFacts:
    """Analysis of a program.

    Attributes:
        ops: Structured ops in the order of the text.
        edges: Producer-consumer edges between them.
        before: Number of structured ops before element-wise fusion.
        static: Number of tensors of static shape.
        open: Types of the tensors with dynamic sizes.
        values: Ranges of the ops' results, where they could be evaluated.
        why_not: Reason why values are missing, where they are.
    """

    ops: tuple[ProgramOp, ...]
    edges: tuple[Edge, ...] = ()
    before: int = 0
    static: int = 0
    open: tuple[str, ...] = ()
    values: tuple[ValueFacts, ...] = field(default=())
    why_not: str = ""
