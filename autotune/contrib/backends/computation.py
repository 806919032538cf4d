"""`Computation`: what a task computes, op by op, as plain data that another compiler's language can be written from.

An op runs over its loops; at each point it reads elements of arrays, computes a number from them, and puts it in its
result, over the number that is there where it sums. Indices are sums of loops with coefficients.
"""

from dataclasses import dataclass, fields

from autotune.core.payload import Payload
from autotune.core.task import Task

Number = int | float | bool


@dataclass(frozen=True)
class LinearIndex:
    """An index of an array.

    Attributes:
        terms: Loops and their coefficients.
        constant: Number that is added.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int = 0

    @property
    def loop(self) -> int | None:
        """The loop that it is, where it is one alone."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and not self.constant else None


@dataclass(frozen=True)
class ArrayRead:
    """An element that an op reads at every point.

    Attributes:
        array: Name of an argument, or of an earlier op's result.
        index: Index along each dimension.
    """

    array: str
    index: tuple[LinearIndex, ...]


@dataclass(frozen=True)
class ScalarOp:
    """A step of the arithmetic at a point.

    Attributes:
        name: Name of the op in MLIR, such as ``arith.addf``.
        operands: Numbers of earlier values: first the elements that are read, then the one that is there, then what
            steps give, in order.
        dtype: MLIR type of what it gives.
        value: Value of a constant, predicate of a comparison, or loop of ``linalg.index``; else `None`.
    """

    name: str
    operands: tuple[int, ...]
    dtype: str
    value: Number | None = None


@dataclass(frozen=True)
class ComputedOp:
    """One op.

    Attributes:
        name: Name of its result.
        shape: Shape of its result.
        dtype: MLIR element type of its result.
        sizes: Trip count of every loop.
        reads: Elements that it reads.
        written: Index of the element that it writes.
        start: What is there before: a constant, the name of an array, or `None` where it is not read.
        steps: Arithmetic.
        gives: Number of the value that it writes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    sizes: tuple[int, ...]
    reads: tuple[ArrayRead, ...]
    written: tuple[LinearIndex, ...]
    start: Number | str | None
    steps: tuple[ScalarOp, ...]
    gives: int

    @property
    def summed(self) -> tuple[int, ...]:
        """Loops that its result has no dimension of."""
        kept = {loop for index in self.written for loop, _ in index.terms}
        return tuple(loop for loop in range(len(self.sizes)) if loop not in kept)


@dataclass(frozen=True)
class Computation:
    """What a task computes.

    Attributes:
        arguments: Names of the arguments that it reads, in order.
        ops: Ops in order; the last one's result is the output.
    """

    arguments: tuple[str, ...]
    ops: tuple[ComputedOp, ...]


@dataclass(frozen=True)
class DescribedTask(Task):
    """A task as back ends are asked for it.

    Attributes:
        computation: What it computes; `None` where an op is of a kind that is not described.
    """

    computation: Computation | None = None

    @classmethod
    def of(cls, task: Task, payload: Payload, computation: Computation | None) -> "DescribedTask":
        """A task with another payload, and what it computes."""
        values = {each.name: getattr(task, each.name) for each in fields(Task)}
        return cls(**{**values, "payload": payload, "computation": computation})
