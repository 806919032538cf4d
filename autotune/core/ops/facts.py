"""Facts of a program, as plain data: its ops and what they touch, its producers and readers, the values it takes."""

from dataclasses import dataclass, field

LINE = 64  # bytes of a cache line

Terms = tuple[tuple[int, int], ...]  # loop and coefficient of each summand of an index


@dataclass(frozen=True)
class Access:
    """What an op reads or writes in the course of its loops.

    Attributes:
        value: Number of the array, the same for all views of it.
        shape: Sizes of the array as the op sees it, outermost first.
        indices: Loops that the index of every dimension is a sum of, with their coefficients.
        element_bytes: Size of an element.
        fresh: Whether every iteration of the loop around the op sees another part of the array, as of stacked weights.
        held: Role of the argument that the array is a part of; empty where an op of the program computes it.
        source: Number of the op that computes the array, also an earlier iteration's; `None` where none does.
        viewed: Whether the op sees a slice or another shape of what `source` gives.
        written: Whether it is what the op gives.
        gathered: Whether elements are read at places that another array holds.
    """

    value: int
    shape: tuple[int, ...]
    indices: tuple[Terms, ...]
    element_bytes: int
    fresh: bool = False
    held: str = ""
    source: int | None = None
    viewed: bool = False
    written: bool = False
    gathered: bool = False


@dataclass(frozen=True)
class OpFacts:
    """One structured op.

    Attributes:
        number: Place in the text, from 0.
        kind: Kind of op, such as ``matmul``.
        task: Tag of the task that computes it; empty where the plain lowering does.
        sizes: Trip count of every loop, outermost first.
        result: Shape and element type of what it gives, such as ``32x64xf32``.
        trips: Number of times one call executes it.
        flops: Floating-point operations of one execution.
        accesses: What it reads, then what it writes.
        depends: What it is computed from: ``inputs``, ``weights`` alone, or ``constants`` alone.
    """

    number: int
    kind: str
    task: str
    sizes: tuple[int, ...]
    result: str
    trips: int
    flops: int
    accesses: tuple[Access, ...]
    depends: str = "inputs"

    @property
    def bytes(self) -> int:
        """Bytes of all that one execution touches, each element once."""
        found = 0
        for access in self.accesses:
            count = 1
            for size, terms in zip(access.shape, access.indices, strict=True):
                count *= min(size, 1 + sum(c * (self.sizes[loop] - 1) for loop, c in terms))
            found += count * access.element_bytes
        return found


@dataclass(frozen=True)
class Edge:
    """A value between two structured ops.

    Attributes:
        producer: Number of the op that makes it.
        reader: Number of the op that reads it.
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

    ops: tuple[OpFacts, ...]
    edges: tuple[Edge, ...] = ()
    before: int = 0
    static: int = 0
    open: tuple[str, ...] = ()
    values: tuple[ValueFacts, ...] = field(default=())
    why_not: str = ""
