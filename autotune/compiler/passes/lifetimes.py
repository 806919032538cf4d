"""How long the buffers of a function live, read off its structured control flow.

A step is the number of an operation in the order of the text. A buffer lives from its first use to its last. What
is made outside a loop and used inside lives for the whole loop, since the next iteration may read it again;
what is made inside lives within one iteration. The body of a parallel loop makes it once a thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

from mlir import ir

from autotune.core.arena_plan import ALIGNMENT, Lifetime
from autotune.core.scripts.marks import TILE

# Their memref results may share memory with any of their operands.
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
# They read and write memory and keep no hold of it; ops of linalg and vector do neither.
ACCESSES = {
    f"memref.{name}"
    for name in ["atomic_rmw", "copy", "dim", "generic_atomic_rmw", "load", "prefetch", "rank", "store"]
} | {f"affine.{name}" for name in ["load", "prefetch", "store", "vector_load", "vector_store"]}
STORES = ("memref.store", "affine.store")  # their first operand is what is stored
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
    """A memref.alloc and how long its memory lives.

    Attributes:
        alloc: The allocation.
        lifetime: Steps that its memory lives for, of the thread that allocates it.
        parallel: The parallel loop whose body allocates it, once a thread; `None` outside of any.
    """

    alloc: ir.Operation
    lifetime: Lifetime
    parallel: ir.Operation | None = None


@dataclass
class Steps:
    """The order of a function's operations.

    Attributes:
        function: Function whose operations are numbered.
        numbers: The step of every operation.
        allocs: Every memref.alloc that is used, in order.
        calls: Names of the functions it calls; the empty name for a call of a function value.
        makers: Number of other operations that hand out memory which somebody has to free.
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
        """The last step inside an operation; its own, where nothing is inside."""
        while blocks := [block for region in op.regions for block in region.blocks if len(block.operations)]:
            op = blocks[-1].operations[len(blocks[-1].operations) - 1].operation
        return self.numbers[op]


def find_buffers(steps: Steps) -> list[Buffer]:
    """The static allocations of a function whose every use is known, in the order of the text.

    Left out is memory that is returned, stored, passed to a call or carried from the iteration that allocates it
    into the next; memory that may be one value with such memory; and what has a dynamic shape, a layout or a space.
    """
    if len(steps.function.regions[0].blocks) != 1:
        return []
    followed = [Aliases(alloc, steps) for alloc in steps.allocs]
    staying: set[ir.Value] = set()
    while leaving := [a for a in followed if a.escapes or not a.values.isdisjoint(staying)]:
        staying.update(*(a.values for a in leaving))
        followed = [a for a in followed if a not in leaving]
    return [Buffer(a.alloc, Lifetime(plain_bytes(a.alloc), a.first, a.last), a.parallel) for a in followed]


def plain_bytes(alloc: ir.Operation) -> int:
    """Bytes of an allocation that a view of an arena can stand for; 0 for any other."""
    kind = ir.MemRefType(alloc.results[0].type)
    size = ELEMENT_BYTES.get(str(kind.element_type), 0)
    if not size or len(alloc.operands) or kind.memory_space is not None:
        return 0
    if kind.affine_map != ir.AffineMap.get_identity(kind.rank):
        return 0
    if "alignment" in alloc.attributes and ir.IntegerAttr(alloc.attributes["alignment"]).value > ALIGNMENT:
        return 0
    return int(size * prod(kind.shape))


class Aliases:
    """Everything that may be the memory of one allocation, followed through views, branches and loops.

    Attributes:
        alloc: The allocation.
        values: Values that may be the allocation's memory.
        escapes: Whether some uses are unknown, or several instances may be alive at once.
        first: First step of its life.
        last: Last step of its life.
        parallel: The forall around the allocation; `None` where there is none.
    """

    def __init__(self, alloc: ir.Operation, steps: Steps) -> None:
        self.alloc = alloc
        self.values: set[ir.Value] = set()
        self._steps = steps
        self._around = list(ancestors(alloc, steps.function))
        outer = [op for op in self._around if op.name == FORALL]
        self.parallel = outer[-1] if outer else None
        known = (*BRANCHES, *LOOPS, FORALL)
        self.escapes = not plain_bytes(alloc) or len(outer) > 1 or any(op.name not in known for op in self._around)
        self.first, self.last = self._extent(self._follow())

    def _follow(self) -> set[ir.Operation]:
        """Visit every use of every alias; gives the users."""
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
        """What else is the memory, because `user` takes it as operand number `operand`."""
        name = user.name
        if name in VIEWS:
            yield from filter(is_memory, user.results)
        elif name == "scf.for" and operand >= BEFORE_INITS:
            yield from carried(user, operand - BEFORE_INITS)
        elif name == "scf.yield":
            parent = user.parent.operation
            if parent.name == "scf.for":
                self.escapes |= parent in self._around  # the next iteration allocates while this memory still lives
                yield from carried(parent, operand)
            elif parent.name in BRANCHES:
                yield parent.results[operand]
            else:
                self.escapes = True
        elif not is_access(user) or (name in STORES and operand == 0):
            self.escapes = True

    def _extent(self, users: Iterable[ir.Operation]) -> tuple[int, int]:
        """First and last step of the life."""
        outermost: dict[ir.Operation, ir.Operation | None] = {}  # of the ops around users
        whole: set[ir.Operation] = set()
        for user in users:
            around = user.parent.operation
            if around not in outermost:
                outermost[around] = self._outermost_loop(user)
            whole.add(outermost[around] or user)
        return min(self._steps.numbers[op] for op in whole), max(self._steps.last(op) for op in whole)

    def _outermost_loop(self, user: ir.Operation) -> ir.Operation | None:
        """The outermost loop around a user that the memory comes into from outside; it lives for all of it."""
        found = None
        for outer in ancestors(user, self._steps.function):
            if outer in self._around:
                break
            if outer.name in (*LOOPS, *PARALLEL) or is_access(outer):
                found = outer
            elif outer.name not in BRANCHES:
                self.escapes = True
        return found


def is_memory(value: ir.Value) -> bool:
    """Tell whether a value is a memref."""
    return isinstance(value.type, (ir.MemRefType, ir.UnrankedMemRefType))


def carried(loop: ir.Operation, index: int) -> tuple[ir.Value, ir.Value]:
    """The body's argument and the result of an scf.for for one of its iter_args."""
    return loop.regions[0].blocks[0].arguments[1 + index], loop.results[index]


def is_access(op: ir.Operation) -> bool:
    """Tell whether an operation only reads and writes the memory it is given.

    An address may be kept for later, and so may what is passed to a function; those of a tile are used at once.
    """
    name = op.name
    if name in ("memref.extract_aligned_pointer_as_index", "func.call"):
        return TILE in op.attributes and not any(map(is_memory, op.results))
    structured = name.startswith(("linalg.", "vector.")) and not name.endswith(".yield")
    return (structured or name in ACCESSES) and not any(map(is_memory, op.results))


def ancestors(op: ir.Operation, function: ir.Operation) -> Iterator[ir.Operation]:
    """Operations around `op`, the innermost first, up to the function and without it."""
    outer = op.parent.operation
    while outer != function:
        yield outer
        outer = outer.parent.operation
