"""Interface of the dialect's ops, and verification of common constraints.

An op is a frozen dataclass whose fields are its attributes; the parameters of its methods are its operands.

    infer         infers the result types from the operand types; raises where a constraint is violated
    reference     computes the results in float64 NumPy; an index is an int
    cost          estimates the cost of a call from the operand types
    lower         emits linalg on tensors; an op without it can be written, but not tuned
    index_ranges  returns the valid ranges of its indices and ids; an op without it has none
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
    """Type of a value: a tensor or an index.

    Attributes:
        shape: Sizes, outermost first; a dynamic one is a `DynamicSize`, whose integer value is its upper bound.
        dtype: MLIR element type; ``index`` for an index, which is not a tensor.
    """

    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def type(self) -> str:
        """MLIR type."""
        return "index" if self == INDEX else tensor_type(self.shape, self.dtype)

    @property
    def bytes(self) -> int:
        """Size of the data in bytes; 0 for an index."""
        return 0 if self == INDEX else math.prod(self.shape) * DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        """Return the sizes as shown in messages: ``32x64``, with the element type unless it is f32."""
        if self == INDEX:
            return "an index"
        sizes = "x".join(map(str, self.shape)) or "one number"
        return sizes if self.dtype == "f32" else f"{sizes} of {self.dtype}"


INDEX = Kind((), "index")
Kinds = tuple[Kind, ...]
IndexRanges = dict[str, tuple[int, int]]  # minimum and maximum, inclusive, that an operand may hold, by name


@dataclass(frozen=True)
class Cost:
    """Cost of a call of an op.

    Attributes:
        flops: Multiplications and additions of its contractions.
        others: All other scalar operations, with an exponential or a hyperbolic tangent as one.
        bytes: Minimum memory traffic in bytes: each operand and result is touched once.
        longest: Length of its longest sum.
    """

    flops: int = 0
    others: int = 0
    bytes: int = 0
    longest: int = 1

    def times(self, count: int) -> "Cost":
        """Return the cost of `count` sequential calls."""
        return Cost(count * self.flops, count * self.others, count * self.bytes, self.longest)

    def __add__(self, other: "Cost") -> "Cost":
        """Return the combined cost of both."""
        longest = max(self.longest, other.longest)
        return Cost(self.flops + other.flops, self.others + other.others, self.bytes + other.bytes, longest)


class DialectOp(Protocol):
    """Protocol of an op of the dialect.

    Attributes:
        name: Name of the op in its dialect.
        gives: Default names of its results.
    """

    name: ClassVar[str]
    gives: ClassVar[tuple[str, ...]]

    @property
    def infer(self) -> Callable[..., Kinds]:
        """Type inference: from operand types to result types."""

    @property
    def reference(self) -> Callable[..., tuple[Any, ...]]:
        """NumPy reference: from operand arrays to result arrays."""

    @property
    def cost(self) -> Callable[..., Cost]:
        """Cost model: from operand types to the cost of a call."""


@dataclass(frozen=True)
class Restored(Value):
    """A quantized matrix whose consumer applies the scales.

    Attributes:
        scale: Scales, one for every slice along dimension `summed`.
        summed: Reduction dimension of the product that consumes it.
    """

    scale: Value = field(kw_only=True)
    summed: int = field(kw_only=True)


def need(holds: bool, requirement: str) -> None:
    """Raise unless a constraint holds.

    Raises:
        PayloadError: The constraint is violated; the message is the constraint.
    """
    if not holds:
        raise PayloadError(requirement)


def need_tensors(dtypes: Sequence[str] = ("f32",), **named: tuple[Kind | None, int]) -> None:
    """Raise unless operands are tensors of the given element types and ranks; absent optional operands pass.

    Args:
        dtypes: Allowed element types.
        named: Operand type and required rank, by operand name.

    Raises:
        PayloadError: An operand is not; the message names it.
    """
    for name, (kind, rank) in named.items():
        if kind is None:
            continue
        dimensions = f"{rank} dimension{'s' if rank != 1 else ''}"
        need(kind != INDEX and kind.rank == rank, f"{name} must have {dimensions}, it is {kind}")
        need(kind.dtype in dtypes, f"{name} must be of {' or '.join(dtypes)}, it is {kind}")


def need_index(**named: Kind | None) -> None:
    """Raise unless operands are indices; absent optional operands pass.

    Raises:
        PayloadError: An operand is not; the message names it.
    """
    for name, kind in named.items():
        need(kind is None or kind == INDEX, f"{name} must be an index, it is {kind}; make one with gpt.index")


def need_row(length: int, **named: Kind | None) -> None:
    """Raise unless operands are f32 vectors ``(length)``; absent optional operands pass.

    Raises:
        PayloadError: An operand is not; the message names it.
    """
    for name, kind in named.items():
        need_tensors(("f32",), **{name: (kind, 1)})
        need(kind is None or kind.shape == (length,), f"{name} must have {length} elements, it is {kind}")


def moved(*kinds: Kind | None) -> int:
    """Return the total size in bytes of tensors that are each touched once."""
    return sum(kind.bytes for kind in kinds if kind is not None)
