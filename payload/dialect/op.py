"""The interface of an op of the dialect, and the constraints that most of them check.

An op is a frozen dataclass: its fields are its attributes, the parameters of its methods its operands.

    infer         shapes of its operands to those of its results; raises where a constraint is broken
    reference     arrays to arrays, in float64 NumPy; an index is a number
    cost          what a call takes, from the shapes of its operands
    lower         emits linalg on tensors; an op without it can be written, but not tuned
    index_ranges  which numbers its indices and ids may be; an op without it reads none
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from autotune.core.errors import PayloadError
from autotune.core.payload import DTYPES
from payload.builder import Value, tensor_type

FLOATS = ("f32", "bf16")


@dataclass(frozen=True)
class Kind:
    """What is known of a value before it is computed.

    Attributes:
        shape: Sizes, outermost first; one that is known at run time only is a `DynamicSize`, its bound.
        dtype: MLIR element type; ``index`` of an index, which is no tensor.
    """

    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def type(self) -> str:
        """The MLIR type."""
        return "index" if self == INDEX else tensor_type(self.shape, self.dtype)

    @property
    def bytes(self) -> int:
        """Size of the data; nothing of an index."""
        return 0 if self == INDEX else math.prod(self.shape) * DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        """Sizes as messages give them: ``32x64``, with the element type where it is not f32."""
        if self == INDEX:
            return "an index"
        sizes = "x".join(map(str, self.shape)) or "one number"
        return sizes if self.dtype == "f32" else f"{sizes} of {self.dtype}"


INDEX = Kind((), "index")
Kinds = tuple[Kind, ...]
IndexRanges = dict[str, tuple[int, int]]  # least and largest number that an operand may hold, by its name


@dataclass(frozen=True)
class Cost:
    """What a call of an op takes.

    Attributes:
        flops: Multiplications and additions of its contractions.
        others: Scalar operations besides, an exponential or a tangent as one.
        bytes: Least bytes that it reads and writes, each operand and result touched once.
        longest: Length of its longest sum.
    """

    flops: int = 0
    others: int = 0
    bytes: int = 0
    longest: int = 1

    def times(self, count: int) -> "Cost":
        """The cost of so many calls, one after the other."""
        return Cost(count * self.flops, count * self.others, count * self.bytes, self.longest)

    def __add__(self, other: "Cost") -> "Cost":
        """The cost of both."""
        longest = max(self.longest, other.longest)
        return Cost(self.flops + other.flops, self.others + other.others, self.bytes + other.bytes, longest)


class DialectOp(Protocol):
    """What every op has.

    Attributes:
        name: Name of the op in its dialect.
        gives: Names that its results have by default.
    """

    name: ClassVar[str]
    gives: ClassVar[tuple[str, ...]]

    @property
    def infer(self) -> Callable[..., Kinds]:
        """Shapes of the results, from those of the operands."""

    @property
    def reference(self) -> Callable[..., tuple[Any, ...]]:
        """The results, from the operands."""

    @property
    def cost(self) -> Callable[..., Cost]:
        """What a call takes, from the shapes of the operands."""


@dataclass(frozen=True)
class Restored(Value):
    """A matrix that is stored in whole numbers: what reads it multiplies by its scales.

    Attributes:
        scale: A scale for every slice along dimension `summed`.
        summed: The dimension that is summed over.
    """

    scale: Value = field(kw_only=True)
    summed: int = field(kw_only=True)


def need(holds: bool, requirement: str) -> None:
    """Raise unless a constraint holds.

    Raises:
        PayloadError: The constraint is broken; the message is the constraint.
    """
    if not holds:
        raise PayloadError(requirement)


def need_tensors(dtypes: Sequence[str] = ("f32",), **named: tuple[Kind | None, int]) -> None:
    """Raise unless operands are tensors of these element types and ranks; one that is left out is fine.

    Args:
        dtypes: Element types that they may have.
        named: Each operand by name, with the number of its dimensions.

    Raises:
        PayloadError: One is not; the message names it.
    """
    for name, (kind, rank) in named.items():
        if kind is None:
            continue
        dimensions = f"{rank} dimension{'s' if rank != 1 else ''}"
        need(kind != INDEX and kind.rank == rank, f"{name} must have {dimensions}, it is {kind}")
        need(kind.dtype in dtypes, f"{name} must be of {' or '.join(dtypes)}, it is {kind}")


def need_index(**named: Kind | None) -> None:
    """Raise unless operands are indices; one that is left out is fine.

    Raises:
        PayloadError: One is not; the message names it.
    """
    for name, kind in named.items():
        need(kind is None or kind == INDEX, f"{name} must be an index, it is {kind}; make one with gpt.index")


def need_row(length: int, **named: Kind | None) -> None:
    """Raise unless operands are rows ``(length)``; one that is left out is fine.

    Raises:
        PayloadError: One is not; the message names it.
    """
    for name, kind in named.items():
        need_tensors(("f32",), **{name: (kind, 1)})
        need(kind is None or kind.shape == (length,), f"{name} must have {length} elements, it is {kind}")


def moved(*kinds: Kind | None) -> int:
    """Bytes of tensors, each touched once."""
    return sum(kind.bytes for kind in kinds if kind is not None)
