"""Lifetimes of the buffers of a function, by its structured control flow.

A step is the number of an operation in pre-order. A buffer is alive from its first use to its last. A buffer that is
allocated outside a loop and used inside is alive for the whole loop, since the next iteration may read it again; one
that is allocated inside is alive within one iteration. In the body of a parallel loop, every thread allocates one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

from mlir import ir

from autotune.core.arena_plan import ALIGNMENT, Lifetime
from autotune.core.scripts.marks import TILE

# Ops whose memref results may alias any of their operands.
VIEWS = {"arith.select", "vector.type_cast"} | {
    f"memref.{name}"
    for name in [
        "assume_alignment",
        "cast",
        "collapse_shape",
        "expand_shape",
        "extract_strided_metadata",
        "memory_space_cast",
        "reinterpret_cast",
        "reshape",
        "subview",
        "transpose",
        "view",
    ]
}
# Ops that access memory without capturing it, like ops of linalg and vector.
ACCESSES = {
    f"memref.{name}"
    for name in ["atomic_rmw", "copy", "dim", "generic_atomic_rmw", "load", "prefetch", "rank", "store"]
} | {f"affine.{name}" for name in ["load", "prefetch", "store", "vector_load", "vector_store"]}
STORES = ("memref.store", "affine.store")  # the first operand is the stored value
MAKERS = ("memref.realloc", "bufferization.clone")
CALLS = ("func.call", "func.call_indirect")
BRANCHES = ("scf.if", "scf.index_switch")
LOOPS = ("scf.for", "scf.while", "affine.for")
FORALL = "scf.forall"
PARALLEL = ("scf.parallel", FORALL, "affine.parallel")
BEFORE_INITS = 3  # operands of scf.for before its iter_args: two bounds and the step
ELEMENT_BYTES = {"f64": 8, "i64": 8, "index": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "i1": 1}


@dataclass(frozen=True)
class Buffer:
    """A memref.alloc and the lifetime of its memory.

    Attributes:
        alloc: Allocation.
        lifetime: Steps for which its memory is alive, in the thread that allocates it.
        parallel: Parallel loop whose body allocates it, once per thread; `None` if there is none.
    """

    alloc: ir.Operation
    lifetime: Lifetime
    parallel: ir.Operation | None = None


@dataclass
class Steps:
    """Numbering of a function's operations.

    Attributes:
        function: Function whose operations are numbered.
        numbers: Step of every operation.
        allocs: Every memref.alloc that has uses, in order.
        calls: Symbols of callees; the empty string for an indirect call.
        makers: Number of other operations that return memory which must be freed.
    """

    function: ir.Operation
    numbers: dict[ir.Operation, int] = field(default_factory=dict)
    allocs: list[ir.Operation] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    makers: int = 0

    @classmethod
    def of(cls, function: ir.Operation) -> "Steps":
        """Number the operations of a function."""
        steps = cls(function)

        def number(op: ir.Operation) -> ir.WalkResult:
            steps.numbers[op] = len(steps.numbers)
            name = op.name
            if name == "memref.alloc" and any(True for _ in op.results[0].uses):
                steps.allocs.append(op)
            if name in CALLS:
                steps.calls.add(str(op.attributes["callee"].value) if "callee" in op.attributes else "")
            if name in MAKERS or name in CALLS:
                steps.makers += any(map(is_memory, op.results))
            return ir.WalkResult.ADVANCE

        function.walk(number, ir.WalkOrder.PRE_ORDER)
        return steps

    def last(self, op: ir.Operation) -> int:
        """Return the last step nested in an operation, or its own if nothing is nested."""
        while blocks := [block for region in op.regions for block in region.blocks if len(block.operations)]:
            op = blocks[-1].operations[len(blocks[-1].operations) - 1].operation
        return self.numbers[op]


def find_buffers(steps: Steps) -> list[Buffer]:
    """Return the static allocations of a function all of whose uses are known, in program order.

    Excluded is memory that is returned, stored, passed to a call, or carried from the iteration that allocates it
    to the next; memory that may alias such memory; and memrefs with a dynamic shape, a layout or a memory space.
    """
    if len(steps.function.regions[0].blocks) != 1:
        return []
    candidates = [Aliases(alloc, steps) for alloc in steps.allocs]
    unsafe: set[ir.Value] = set()  # aliases of escaping allocations; whatever shares one escapes too
    while escaping := [a for a in candidates if a.escapes or not a.values.isdisjoint(unsafe)]:
        unsafe.update(*(a.values for a in escaping))
        candidates = [a for a in candidates if a not in escaping]
    return [Buffer(a.alloc, Lifetime(plain_bytes(a.alloc), a.first, a.last), a.parallel) for a in candidates]


def plain_bytes(alloc: ir.Operation) -> int:
    """Return the size in bytes of an allocation that a view of an arena can replace; 0 for any other."""
    memref_type = ir.MemRefType(alloc.results[0].type)
    size = ELEMENT_BYTES.get(str(memref_type.element_type), 0)
    if not size or len(alloc.operands) or memref_type.memory_space is not None:
        return 0
    if memref_type.affine_map != ir.AffineMap.get_identity(memref_type.rank):
        return 0
    if "alignment" in alloc.attributes and ir.IntegerAttr(alloc.attributes["alignment"]).value > ALIGNMENT:
        return 0
    return int(size * prod(memref_type.shape))


class Aliases:
    """Values that may alias one allocation, through views, branches and loops.

    Attributes:
        alloc: Allocation.
        values: Values that may alias it.
        escapes: Whether some uses are unknown, or several instances may be alive at once.
        first: First step of its lifetime.
        last: Last step of its lifetime.
        parallel: Enclosing scf.forall; `None` if there is none.
    """

    def __init__(self, alloc: ir.Operation, steps: Steps) -> None:
        self.alloc = alloc
        self.values: set[ir.Value] = set()
        self._steps = steps
        self._ancestors = list(ancestors(alloc, steps.function))
        outer = [op for op in self._ancestors if op.name == FORALL]
        self.parallel = outer[-1] if outer else None
        known = (*BRANCHES, *LOOPS, FORALL)
        self.escapes = not plain_bytes(alloc) or len(outer) > 1 or any(op.name not in known for op in self._ancestors)
        self.first, self.last = self._extent(self._follow())

    def _follow(self) -> set[ir.Operation]:
        """Visit every use of every alias; return the users."""
        users: set[ir.Operation] = set()
        waiting: list[ir.Value] = [self.alloc.results[0]]
        while waiting:
            value = waiting.pop()
            if value in self.values:
                continue
            self.values.add(value)
            for use in value.uses:
                user = use.owner.operation
                users.add(user)
                waiting.extend(self._onward(user, use.operand_number))
        return users

    def _onward(self, user: ir.Operation, operand: int) -> Iterator[ir.Value]:
        """Yield the aliases that `user` creates from its operand number `operand`."""
        name = user.name
        if name in VIEWS:
            yield from filter(is_memory, user.results)
        elif name == "scf.for" and operand >= BEFORE_INITS:
            yield from carried(user, operand - BEFORE_INITS)
        elif name == "scf.yield":
            parent = user.parent.operation
            if parent.name == "scf.for":
                self.escapes |= parent in self._ancestors  # the next iteration allocates while this memory is alive
                yield from carried(parent, operand)
            elif parent.name in BRANCHES:
                yield parent.results[operand]
            else:
                self.escapes = True
        elif not is_access(user) or (name in STORES and operand == 0):
            self.escapes = True

    def _extent(self, users: Iterable[ir.Operation]) -> tuple[int, int]:
        """Return the first and the last step of the lifetime, extended to the whole of loops that reuse the memory."""
        outermost: dict[ir.Operation, ir.Operation | None] = {}  # by parent of a user
        extended: set[ir.Operation] = set()
        for user in users:
            parent = user.parent.operation
            if parent not in outermost:
                outermost[parent] = self._outermost_loop(user)
            extended.add(outermost[parent] or user)
        return min(self._steps.numbers[op] for op in extended), max(self._steps.last(op) for op in extended)

    def _outermost_loop(self, user: ir.Operation) -> ir.Operation | None:
        """Return the outermost loop around a user but not around the allocation; the memory is alive for all of it."""
        outermost = None
        for outer in ancestors(user, self._steps.function):
            if outer in self._ancestors:
                break
            if outer.name in (*LOOPS, *PARALLEL) or is_access(outer):
                outermost = outer
            elif outer.name not in BRANCHES:
                self.escapes = True
        return outermost


def is_memory(value: ir.Value) -> bool:
    """Return whether a value is a memref."""
    return isinstance(value.type, (ir.MemRefType, ir.UnrankedMemRefType))


def carried(loop: ir.Operation, index: int) -> tuple[ir.Value, ir.Value]:
    """Return the block argument and the result of one of the iter_args of an scf.for."""
    return loop.regions[0].blocks[0].arguments[1 + index], loop.results[index]


def is_access(op: ir.Operation) -> bool:
    """Return whether an operation only reads and writes its memref operands, without capturing them.

    Extracted pointers and call arguments may be captured, except those marked as of a tile, which are used at once.
    """
    name = op.name
    if name in ("memref.extract_aligned_pointer_as_index", "func.call"):
        return TILE in op.attributes and not any(map(is_memory, op.results))
    structured = name.startswith(("linalg.", "vector.")) and not name.endswith(".yield")
    return (structured or name in ACCESSES) and not any(map(is_memory, op.results))


def ancestors(op: ir.Operation, function: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the ancestors of `op`, innermost first, up to and excluding the function."""
    outer = op.parent.operation
    while outer != function:
        yield outer
        outer = outer.parent.operation
