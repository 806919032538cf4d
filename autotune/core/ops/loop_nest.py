"""What an op computes, as schedules see it: the loops of a structured op, and contractions."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Contraction:
    """Sizes and layout of ``C[b, m, n] += A[b, m, k] * B[b, k, n]``, the op most schedules are about.

    Attributes:
        batch: Number of independent products; 1 and `batched` false for a plain matmul.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Length of the sum.
        transposed_a: A is stored ``(k, m)``.
        transposed_b: B is stored ``(n, k)``.
        batched: The op has a batch dimension (which may be 1).
        dtype: Element type of the operands.
        constant_b: B is a weight, the same in every call: it may be stored as the schedule likes.
        zeroed: C is filled with zeros first.
        stored_b: Element type of B where it is another one, ``bf16`` or ``i8``: it is widened when it is multiplied.
        precision: What operands are rounded to, if `k` counts words of several values (`core.precision`).
    """

    m: int
    n: int
    k: int
    batch: int = 1
    transposed_a: bool = False
    transposed_b: bool = False
    batched: bool = False
    dtype: str = "f32"
    constant_b: bool = False
    zeroed: bool = False
    stored_b: str = ""
    precision: str = ""

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Lanes:
    """Loops of an op with windows that become a register tile; all its others go by ones.

    Attributes:
        lane: The loop along which every operand lies side by side, or stays, when all others stand still.
        row: The innermost parallel loop besides that the kernel does not go along: several of its steps share what they
            read there. `None` if there is none.
        products: The op sums products with a kernel, its second operand; else it has no kernel.
        constant_b: The kernel is a weight, the same in every call: it may be stored as the schedule likes.
    """

    lane: int
    row: int | None = None
    products: bool = False
    constant_b: bool = False


@dataclass(frozen=True)
class LoopNest:
    """Iteration space of a structured op, outermost loop first.

    Attributes:
        sizes: Trip count of every loop.
        iterators: ``parallel`` or ``reduction``, one a loop.
        growing: Loops whose trip count is known at run time only; `sizes` has its bound.
    """

    sizes: tuple[int, ...]
    iterators: tuple[str, ...]
    growing: tuple[int, ...] = ()

    @property
    def reduced(self) -> tuple[int, ...]:
        """Trip counts of the reduction loops."""
        return tuple(s for s, i in zip(self.sizes, self.iterators, strict=True) if i == "reduction")


def rows_of(iterators: Sequence[str], contracts: bool) -> int:
    """How many leading loops are rows: the parallel ones, but for the last where that one runs along a row.

    Args:
        iterators: ``parallel`` or ``reduction``, one a loop.
        contracts: The op is a matmul of some kind.
    """
    parallel = iterators.count("parallel")
    return parallel - 1 if contracts or parallel == len(iterators) else parallel
