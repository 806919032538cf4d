"""`Op`: a structured op as plain data, read once from the IR; what schedules, groups, names and models ask follows.

`Operand` says how an array is read or written, `Index` how one of its dimensions follows from the loops, `BodyOp` is a
step of the arithmetic at a point. `Contraction` and `Lanes` are what an op is to families that tile it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

Number = bool | int | float
Terms = tuple[tuple[int, int], ...]  # loop and coefficient of each summand of an index
ELEMENT_BYTES = {"f64": 8, "i64": 8, "index": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "i1": 1}
UNCOUNTED = ("arith.constant", "arith.select", "arith.index_cast", "arith.extf", "arith.truncf", "arith.sitofp")


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
    def widens(self) -> bool:
        """Whether elements are widened before they are multiplied: those of B, or bytes of both."""
        return bool(self.stored_b) or self.dtype == "i8"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Lanes:
    """Loops of an op with windows that become a register tile; all its others go by ones.

    Attributes:
        lane: The loop along which every operand lies side by side, or stays, when all others stand still.
        row: The innermost parallel loop besides that the kernel does not go along, or what it is slid over, if vectors
            are of that: several of its steps share what they read there; the longer one. `None` if there is none.
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
        sizes: Trip count of every loop; empty where one is not known.
        iterators: ``parallel`` or ``reduction``, one a loop.
        growing: Loops whose trip count is known at run time only; `sizes` has its bound.
    """

    sizes: tuple[int, ...]
    iterators: tuple[str, ...]
    growing: tuple[int, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether every trip count is known, or its bound."""
        return len(self.sizes) == len(self.iterators)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Trip counts of the reduction loops."""
        return tuple(s for s, i in zip(self.sizes, self.iterators, strict=True) if i == "reduction")


@dataclass(frozen=True)
class IndexPart:
    """``factor * (inner floordiv by)``, or another division, as a summand of an index.

    Attributes:
        kind: ``floordiv``, ``ceildiv`` or ``mod``.
        inner: What is divided.
        by: Divisor.
        factor: Factor.
    """

    kind: str
    inner: "Index"
    by: int
    factor: int = 1


@dataclass(frozen=True)
class Index:
    """An index along one dimension of an array, as a sum: of loops with coefficients, of parts, of a constant.

    Attributes:
        terms: Loops and their coefficients.
        constant: Number that is added.
        parts: Summands that divide.
    """

    terms: Terms = ()
    constant: int = 0
    parts: tuple[IndexPart, ...] = ()

    @property
    def loop(self) -> int | None:
        """The loop that it is, where it is one alone."""
        alone = len(self.terms) == 1 and not self.constant and not self.parts
        return self.terms[0][0] if alone and self.terms[0][1] == 1 else None

    @property
    def is_constant(self) -> bool:
        """Whether no loop moves it."""
        return not self.terms and not self.parts

    @property
    def moving(self) -> Terms:
        """Loops that move it and by how much; of what is divided, before it is."""
        inner = ((loop, c * part.factor) for part in self.parts for loop, c in part.inner.moving)
        return (*self.terms, *inner)

    def factor(self, loop: int) -> int | None:
        """By how much it moves when a loop takes a step; `None` where it divides."""
        return None if self.parts else sum(c for each, c in self.terms if each == loop)

    def plus(self, other: "Index") -> "Index":
        """The sum of two."""
        return Index((*self.terms, *other.terms), self.constant + other.constant, (*self.parts, *other.parts))

    def times(self, by: int) -> "Index":
        """A multiple."""
        parts = tuple(IndexPart(part.kind, part.inner, part.by, part.factor * by) for part in self.parts)
        return Index(tuple((loop, c * by) for loop, c in self.terms), self.constant * by, parts)


@dataclass(frozen=True)
class Operand:
    """What an op reads or writes in the course of its loops.

    Attributes:
        shape: Sizes of the array as the op sees it, outermost first; a bound for one known at run time only.
        dtype: MLIR element type.
        indices: Index along every dimension; of elements that are read at computed indices, loops where those are ones.
        growing: Dimensions whose size is known at run time only.
        is_scalar: Whether it is a number, no array.
        held: Role of the argument that it is a part of; ``constant`` of what is one; empty where an op computes it.
        start: Number that it is filled with before the op, of one that is written; `None` where there is none.
        is_filled: Whether something is filled into it before the op.
        is_own: Whether it is filled for this op alone.
        is_fresh: Whether what it holds before matters to nobody: it is filled with a constant, or never read.
        gathered: Whether elements are read at computed indices, in the body.
        source: Number of the op that computes the array, among the task's or the program's; `None` where none does.
        argument: Name of the argument of the task's payload that holds it; empty where there is none.
        value: Number of the array among a program's, the same for all views of it.
        moves: Whether every iteration of the loop around the op sees another part of it, as of stacked weights.
        viewed: Whether the op sees a slice or another shape of what `source` gives.
        written: Whether it is what the op gives.
    """

    shape: tuple[int, ...]
    dtype: str
    indices: tuple[Index, ...]
    growing: tuple[int, ...] = ()
    is_scalar: bool = False
    held: str = ""
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
        """Size of an element."""
        return ELEMENT_BYTES.get(self.dtype, 4)

    @property
    def loops(self) -> list[int | None]:
        """The loop that each dimension runs over; `None` where it is not one loop alone."""
        return [index.loop for index in self.indices]

    @property
    def terms(self) -> tuple[Terms, ...]:
        """Loops that the index of every dimension moves with, and by how much."""
        return tuple(index.moving for index in self.indices)

    def touched(self, sizes: Sequence[int]) -> int:
        """Elements that loops of some trip counts touch, each once."""
        count = 1
        for size, terms in zip(self.shape, self.terms, strict=True):
            count *= min(size, 1 + sum(c * (sizes[loop] - 1) for loop, c in terms))
        return count


@dataclass(frozen=True)
class BodyOp:
    """A step of the arithmetic at a point.

    Attributes:
        name: Name of the op in MLIR, such as ``arith.addf``.
        operands: Numbers of values: first elements of the op's operands, then of those captured, then what steps give,
            in order; -1 for any other value.
        dtypes: MLIR types of what it gives, mostly one.
        value: Value of a constant, predicate of a comparison, or loop of ``linalg.index``; else `None`.
        nested: Whether it has steps of its own, or stands within one that has.
    """

    name: str
    operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    value: Number | None = None
    nested: bool = False


@dataclass(frozen=True)
class Op:
    """A structured op. What families ask is computed of the rest where it is read, and kept with it.

    Attributes:
        nest: Loops of the op.
        reader: Position, among the task's ops, of a consumer of its result.
        operand: Number of the operand it is there.
        contraction: Sizes and layout, if the op is a contraction with loops in the order (batch,) m, n, k.
        filled: Number of the operand that is filled with a constant first, its destination; `None` if there is none.
        masked_loop: Position of a loop over columns of which a causal mask hides those behind the row's own: what is
            computed there changes no result. `None` if there is none.
        mask_period: Rows after which that mask begins again; 0 if it does not.
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
        kind: Kind of op, such as ``matmul`` or ``generic``.
        operands: What it reads in its loops, then what it writes, one a result.
        captured: What its body takes from outside but constants: arrays, once for each element that it reads of them.
        body: Steps of its arithmetic, those of nested ones behind them; constants from outside are steps, too.
        gives: Number of the value that is written, one a result.
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
        """What it reads in its loops and does not write."""
        return self.operands[: len(self.operands) - self.results]

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """What it writes."""
        return self.operands[len(self.operands) - self.results :]

    @property
    def accesses(self) -> tuple[Operand, ...]:
        """Arrays: those that it reads in its loops, those that it writes, and those that it gathers from."""
        return tuple(each for each in (*self.operands, *self.captured) if not each.is_scalar)

    @property
    def reduced(self) -> tuple[int, ...]:
        """Loops that its last result has no dimension of."""
        kept = {loop for terms in self.operands[-1].terms for loop, _ in terms}
        return tuple(loop for loop in range(len(self.nest.iterators)) if loop not in kept)

    @property
    def extracts(self) -> bool:
        """Whether it reads elements of tensors, no constants, at computed indices, whatever those are."""
        return any(each.gathered and each.held != "constant" for each in self.captured)

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
        seen = sum(min(row % (self.mask_period or rows) + 1, columns) for row in range(rows))
        return self.contraction.flops * seen / (rows * columns)

    @property
    def arithmetic(self) -> int:
        """Floating-point operations of its body, over all points."""
        return sum(map(is_floating, self.body)) * prod(self.nest.sizes)

    @property
    def first_step(self) -> int:
        """Number of the value that the first step of its body gives."""
        return len(self.operands) + len(self.captured)

    def maker(self, value: int) -> BodyOp | None:
        """The step that gives a value; `None` of an operand, or of what is not known."""
        number = value - self.first_step
        return self._makers[number] if 0 <= number < len(self._makers) else None

    @cached_property
    def _makers(self) -> tuple[BodyOp, ...]:
        return tuple(step for step in self.body for _ in step.dtypes)

    def does(self, *names: str) -> bool:
        """Return whether the body holds all of these steps."""
        return set(names) <= {step.name for step in self.body}


@dataclass(frozen=True)
class ProgramOp(Op):
    """A structured op where it stands in a program.

    Attributes:
        number: Position in the text, from 0.
        task: Tag of the task that computes it; empty where the plain lowering does.
        trips: Number of times one call executes it.
        depends: What it is computed from: ``inputs``, ``weights`` alone, or ``constants`` alone.
    """

    number: int = 0
    task: str = ""
    trips: int = 1
    depends: str = "inputs"

    @property
    def result(self) -> str:
        """Shape and element type of what it gives, such as ``32x64xf32``."""
        written = self.operands[-self.results]
        sizes = ("?" if d in written.growing else str(size) for d, size in enumerate(written.shape))
        return "x".join((*sizes, written.dtype))

    @property
    def bytes(self) -> int:
        """Bytes of all that one execution touches, each element once."""
        return sum(each.touched(self.nest.sizes) * each.element_bytes for each in self.accesses)


def is_floating(step: BodyOp) -> bool:
    """Return whether a step is one floating-point operation an element."""
    known = step.name.startswith(("arith.", "math.")) and step.name not in UNCOUNTED and not step.nested
    return known and any(kind.startswith(("f", "bf")) for kind in step.dtypes)


def rows_of(iterators: Sequence[str], contracts: bool) -> int:
    """How many leading loops are rows: the parallel ones, but for the last where that one runs along a row.

    Args:
        iterators: ``parallel`` or ``reduction``, one a loop.
        contracts: The op is a matmul of some kind.
    """
    parallel = iterators.count("parallel")
    return parallel - 1 if contracts or parallel == len(iterators) else parallel
