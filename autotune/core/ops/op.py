"""`Op`: a structured operation as plain data, read once from the IR; schedules, fusion, names and models query it.

`Operand` is an array that is read or written, `Index` is one result of its affine indexing map, `BodyOp` is one
operation of the body. `Contraction` and `Lanes` are the views of an op that families of schedules tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

Number = bool | int | float
Terms = tuple[tuple[int, int], ...]  # loop dimension and coefficient of each summand of an affine index
ELEMENT_BYTES = {"f64": 8, "i64": 8, "index": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "i1": 1}
UNCOUNTED = ("arith.constant", "arith.select", "arith.index_cast", "arith.extf", "arith.truncf", "arith.sitofp")


@dataclass(frozen=True)
class Contraction:
    """Sizes and layout of the contraction ``C[b, m, n] += A[b, m, k] * B[b, k, n]``.

    Attributes:
        batch: Number of independent products; 1 and `batched` false for a plain matmul.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Trip count of the reduction.
        transposed_a: A is stored ``(k, m)``.
        transposed_b: B is stored ``(n, k)``.
        batched: The op has a batch dimension (which may be 1).
        dtype: Element type of A.
        constant_b: B is a weight, the same in every call: the schedule may choose its layout.
        zeroed: C is filled with zeros before the op.
        stored_b: Element type of B where it differs from A's, such as ``bf16`` or ``i8``: B is widened when it is
            multiplied. Empty where it is the same.
        precision: Name of the precision that operands are rounded to, where `k` counts packed words
            (`core.precision`); empty for none.
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
    def widens(self) -> bool:
        """Whether elements are widened before they are multiplied: those of B, or i8 elements of both operands."""
        return bool(self.stored_b) or self.dtype == "i8"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Lanes:
    """Loops of an op with sliding windows that form the register tile; all other loops have tile size 1.

    Attributes:
        lane: The vectorized loop: every operand has unit stride along it, or is invariant in it.
        row: The loop that is unrolled for register reuse: the innermost parallel loop besides `lane` in which the
            kernel is invariant, or the one in which the first input is invariant where only that is read as vectors;
            the longer of the two. `None` if there is none.
        products: The op sums products with a kernel, its second operand; else it has no kernel.
        constant_b: The kernel is a weight, the same in every call: the schedule may choose its layout.
    """

    lane: int
    row: int | None = None
    products: bool = False
    constant_b: bool = False


@dataclass(frozen=True)
class LoopNest:
    """Iteration space of a structured op, outermost loop first.

    Attributes:
        sizes: Trip count of every loop; empty where one is not known.
        iterators: Iterator type of every loop, ``parallel`` or ``reduction``.
        growing: Loops whose trip count is dynamic; `sizes` holds its upper bound.
    """

    sizes: tuple[int, ...]
    iterators: tuple[str, ...]
    growing: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether every trip count, or its upper bound, is known."""
        return len(self.sizes) == len(self.iterators)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Trip counts of the reduction loops."""
        return tuple(s for s, i in zip(self.sizes, self.iterators, strict=True) if i == "reduction")


@dataclass(frozen=True)
class IndexPart:
    """Summand ``factor * (inner floordiv by)`` of an affine index, or the same with ``ceildiv`` or ``mod``.

    Attributes:
        kind: ``floordiv``, ``ceildiv`` or ``mod``.
        inner: Dividend.
        by: Divisor.
        factor: Coefficient of the summand.
    """

    kind: str
    inner: "Index"
    by: int
    factor: int = 1


@dataclass(frozen=True)
class Index:
    """An affine index along one dimension of an array: a sum of scaled loop dimensions, divisions and a constant.

    Attributes:
        terms: Loop dimensions and their coefficients.
        constant: Constant summand.
        parts: Summands with a division or remainder.
    """

    terms: Terms = ()
    constant: int = 0
    parts: tuple[IndexPart, ...] = ()

    @property
    def loop(self) -> int | None:
        """The loop dimension that the index equals; `None` where it is any other expression."""
        alone = len(self.terms) == 1 and not self.constant and not self.parts
        return self.terms[0][0] if alone and self.terms[0][1] == 1 else None

    @property
    def is_constant(self) -> bool:
        """Whether the index is invariant in every loop."""
        return not self.terms and not self.parts

    @property
    def moving(self) -> Terms:
        """Loop dimensions that the index depends on, with coefficients; inside a division, those of the dividend."""
        inner = ((loop, c * part.factor) for part in self.parts for loop, c in part.inner.moving)
        return (*self.terms, *inner)

    def factor(self, loop: int) -> int | None:
        """Return the coefficient of a loop dimension; `None` where the index has divisions."""
        return None if self.parts else sum(c for each, c in self.terms if each == loop)

    def plus(self, other: "Index") -> "Index":
        """Return the sum of two indices."""
        return Index((*self.terms, *other.terms), self.constant + other.constant, (*self.parts, *other.parts))

    def times(self, by: int) -> "Index":
        """Return the index multiplied by a constant."""
        parts = tuple(IndexPart(part.kind, part.inner, part.by, part.factor * by) for part in self.parts)
        return Index(tuple((loop, c * by) for loop, c in self.terms), self.constant * by, parts)


@dataclass(frozen=True)
class Operand:
    """An operand of a structured op, with its access pattern.

    Attributes:
        shape: Sizes of the array as the op sees it, outermost first; the upper bound of a dynamic size.
        dtype: MLIR element type.
        indices: Affine index along every dimension; of elements read at computed indices, the loop dimension where the
            computed index is one.
        growing: Dimensions of dynamic size.
        is_scalar: Whether it is a scalar instead of an array.
        role: Role of the argument that it is a part of; ``constant`` for a constant; empty where an op computes it.
        start: Number that a written operand is filled with before the op; `None` where there is none.
        is_filled: Whether it is filled before the op.
        is_own: Whether it is filled for this op alone.
        is_fresh: Whether its previous contents are never used: it is filled with a constant, or never read.
        gathered: Whether elements are read at computed indices, in the body.
        source: Number of the producer among the ops of the task or program; `None` where there is none.
        argument: Name of the argument of the task's payload that holds it; empty where there is none.
        value: Number of the array among those of a program, the same for all views of it.
        moves: Whether every iteration of the loop around the op reads another slice of it, as of stacked weights.
        viewed: Whether the op reads a slice or a reshape of the result of `source`.
        written: Whether it is a result of the op.
    """

    shape: tuple[int, ...]
    dtype: str
    indices: tuple[Index, ...]
    growing: tuple[int, ...] = ()
    is_scalar: bool = False
    role: str = ""
    start: Number | None = None
    is_filled: bool = False
    is_own: bool = False
    is_fresh: bool = False
    gathered: bool = False
    source: int | None = None
    argument: str = ""
    value: int = 0
    moves: bool = False
    viewed: bool = False
    written: bool = False

    @property
    def element_bytes(self) -> int:
        """Size of an element in bytes."""
        return ELEMENT_BYTES.get(self.dtype, 4)

    @property
    def loops(self) -> list[int | None]:
        """Loop dimension that each index equals; `None` where it is any other expression."""
        return [index.loop for index in self.indices]

    @property
    def terms(self) -> tuple[Terms, ...]:
        """Loop dimensions with coefficients that the index along every dimension depends on."""
        return tuple(index.moving for index in self.indices)

    def touched(self, sizes: Sequence[int]) -> int:
        """Return the number of distinct elements that loops of the given trip counts access."""
        count = 1
        for size, terms in zip(self.shape, self.terms, strict=True):
            count *= min(size, 1 + sum(c * (sizes[loop] - 1) for loop, c in terms))
        return count


@dataclass(frozen=True)
class BodyOp:
    """A scalar operation of the body of a structured op.

    Attributes:
        name: Name of the op in MLIR, such as ``arith.addf``.
        operands: Numbers of values: first the block arguments of the op's operands, then the captured operands, then
            the results of the body's operations, in order; -1 for any other value.
        dtypes: MLIR types of its results, mostly one.
        value: Value of a constant, predicate of a comparison, or dimension of ``linalg.index``; else `None`.
        nested: Whether it has a region, or is inside the region of another operation of the body.
    """

    name: str
    operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    value: Number | None = None
    nested: bool = False


@dataclass(frozen=True)
class Op:
    """A structured op. Properties that families query are computed when the op is read from the IR, and stored.

    Attributes:
        nest: Iteration space of the op.
        reader: Position of a consumer of its result among the task's ops.
        operand: Operand number of the result in that consumer.
        contraction: Sizes and layout, if the op is a contraction with loops in the order (batch,) m, n, k.
        filled: Number of the operand that is filled with a constant first, its destination; `None` if there is none.
        masked_loop: Position of a column loop under a causal mask: columns beyond that of the row do not change any
            result. `None` if there is none.
        mask_period: Rows after which that mask repeats; 0 if it does not.
        online_loop: Position of a column loop that may be computed block by block with an online softmax, since the
            group divides by the sum of a softmax in the end. `None` if there is none.
        lanes: Loops of its register tile, if the op has sliding windows and does not vectorize as it is.
        counts: Whether the body uses the induction variable of a reduction loop, as argmax does.
        gathers: Whether the op reads elements of a tensor at indices that another tensor holds.
        vectorizes: Whether upstream's vectorizer takes tiles of the op as they are: no windows, simple reductions.
        turned: The loop, not the last one, along which an input of an element-wise op has unit stride (a transposed
            read); `None` if there is none.
        periods: Access period of every loop of a stencil, an element-wise op that reads neighbours, with strides, or at
            indices that repeat: tiles start at multiples of it. Empty for any other op.
        kind: Kind of op, such as ``matmul`` or ``generic``.
        operands: Inputs, then destinations, one for each result.
        captured: Values other than constants that the body captures: arrays, once for each element read of them.
        body: Operations of the body, those of regions behind the operation that has the region; captured constants are
            operations, too.
        gives: Number of the value that is yielded for each result.
        results: Number of results.
        multiplies: Whether it is a contraction, as MLIR defines them.
    """

    nest: LoopNest
    reader: int = 0
    operand: int = 0
    contraction: Contraction | None = None
    filled: int | None = None
    masked_loop: int | None = None
    mask_period: int = 0
    online_loop: int | None = None
    lanes: Lanes | None = None
    counts: bool = False
    gathers: bool = False
    vectorizes: bool = True
    turned: int | None = None
    periods: tuple[int, ...] = ()
    kind: str = "generic"
    operands: tuple[Operand, ...] = ()
    captured: tuple[Operand, ...] = ()
    body: tuple[BodyOp, ...] = ()
    gives: tuple[int, ...] = ()
    results: int = 1
    multiplies: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trip count of every loop; empty where one is not known."""
        return self.nest.sizes

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Operands that are read only."""
        return self.operands[: len(self.operands) - self.results]

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that are written, one for each result."""
        return self.operands[len(self.operands) - self.results :]

    @property
    def accesses(self) -> tuple[Operand, ...]:
        """Arrays that the op accesses: its inputs, its destinations, and those it gathers from."""
        return tuple(each for each in (*self.operands, *self.captured) if not each.is_scalar)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Loops in which the last result is invariant."""
        indexed = {loop for terms in self.operands[-1].terms for loop, _ in terms}
        return tuple(loop for loop in range(len(self.nest.iterators)) if loop not in indexed)

    @property
    def extracts(self) -> bool:
        """Whether the body reads elements of tensors that are no constants, at any computed indices."""
        return any(each.gathered and each.role != "constant" for each in self.captured)

    @property
    def can_split_reduction(self) -> bool:
        """Whether a reduction may be split into several accumulators.

        Not where the body uses the induction variable: upstream's tiling offsets it in the first partial result only.
        """
        return bool(self.nest.reduced) and not self.counts

    @property
    def has_products(self) -> bool:
        """Whether the op sums products: a contraction, or a convolution."""
        return self.contraction is not None or (self.lanes is not None and self.lanes.products)

    @property
    def flops(self) -> float:
        """Operations that no schedule can avoid: multiply-adds count as two, any other op as one a point.

        Of a contraction under a causal mask, only the visible columns of each row count.
        """
        if self.contraction is None:
            return prod(self.nest.sizes) * (2 if self.has_products else 1)
        if self.masked_loop is None:
            return float(self.contraction.flops)
        rows, columns = self.contraction.m, self.nest.sizes[self.masked_loop]
        seen = sum(min(row % (self.mask_period or rows) + 1, columns) for row in range(rows))
        return self.contraction.flops * seen / (rows * columns)

    @property
    def arithmetic(self) -> int:
        """Floating-point operations of the body over the whole iteration space."""
        return sum(map(is_floating, self.body)) * prod(self.nest.sizes)

    @property
    def first_step(self) -> int:
        """Number of the first result of the body's operations, behind the operands and the captured values."""
        return len(self.operands) + len(self.captured)

    def maker(self, value: int) -> BodyOp | None:
        """Return the defining operation of a value; `None` for an operand or an unknown value."""
        number = value - self.first_step
        return self._makers[number] if 0 <= number < len(self._makers) else None

    @cached_property
    def _makers(self) -> tuple[BodyOp, ...]:
        return tuple(step for step in self.body for _ in step.dtypes)

    def does(self, *names: str) -> bool:
        """Return whether the body contains operations of all these names."""
        return set(names) <= {step.name for step in self.body}


@dataclass(frozen=True)
class ProgramOp(Op):
    """A structured op at its position in a program.

    Attributes:
        number: Position in the text, from 0.
        task: Tag of the task that computes it; empty where the plain lowering does.
        trips: Number of times one call executes it.
        depends: Operands that it transitively depends on: ``inputs``, ``weights`` alone, or ``constants`` alone.
    """

    number: int = 0
    task: str = ""
    trips: int = 1
    depends: str = "inputs"

    @property
    def result(self) -> str:
        """Shape and element type of its first result, such as ``32x64xf32``."""
        written = self.operands[-self.results]
        sizes = ("?" if d in written.growing else str(size) for d, size in enumerate(written.shape))
        return "x".join((*sizes, written.dtype))

    @property
    def bytes(self) -> int:
        """Bytes that one execution accesses, each element counted once."""
        return sum(each.touched(self.nest.sizes) * each.element_bytes for each in self.accesses)


def is_floating(step: BodyOp) -> bool:
    """Return whether a body operation counts as a floating-point operation; constants, selects and casts do not."""
    is_counted = step.name.startswith(("arith.", "math.")) and step.name not in UNCOUNTED and not step.nested
    return is_counted and any(dtype.startswith(("f", "bf")) for dtype in step.dtypes)


def rows_of(iterators: Sequence[str], contracts: bool) -> int:
    """Return the number of leading row loops: the parallel ones, without the last where that runs along a row.

    The last parallel loop runs along a row in a contraction, and in an op without reductions.

    Args:
        iterators: Iterator type of every loop, ``parallel`` or ``reduction``.
        contracts: Whether the op is a contraction.
    """
    parallel = iterators.count("parallel")
    return parallel - 1 if contracts or parallel == len(iterators) else parallel
