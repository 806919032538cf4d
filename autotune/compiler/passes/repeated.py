"""Outline loop nests that a program contains several times, on different buffers, to one function.

An imported model contains a copy of each layer. LLVM would compile each, and its time grows superlinearly: twelve
layers take far more than twelve times as long as one. Nests are equal if their IR is, including the types of captured
values, which become the function's arguments.

    scf.for ... { %a, %b }        func.func private @__autotune_nest_0(%x, %y) { scf.for ... { %x, %y } }
    scf.for ... { %b, %c }   ->   call @__autotune_nest_0(%a, %b)
                                  call @__autotune_nest_0(%b, %c)

If there are many nests, unique ones are outlined, too: LLVM's time grows superlinearly with the size of a function.
"""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from autotune.compiler.ir.addresses import take_addresses
from autotune.compiler.ir.captures import capture
from autotune.compiler.ir.module import every_op, free_name
from autotune.compiler.ir.values import is_constant, values_of
from autotune.core.scripts.marks import TAG

FUNCTION = "__autotune_nest_"  # prefix of the names of the functions
LOOP, LINALG = "scf.for", "linalg."  # remaining linalg ops are lowered to loops
MANY = 32  # distinct nests, from which on each is outlined
ADDRESSES = ("memref.get_global", "memref.view")  # ops that compute the address of a buffer in the arena


def repeats_tasks(function: ir.OpView) -> bool:
    """Return whether a function has several ops with the same tag, or many tagged ops."""
    tags = [str(op.attributes[TAG]) for op in function.regions[0].blocks[0].operations if TAG in op.attributes]
    return len(set(tags)) < len(tags) or len(tags) >= MANY


def share_nests(module: ir.Module, function: ir.OpView) -> None:
    """Outline equal nests of a function to shared functions, in place; if there are many nests, outline all.

    Args:
        module: Bufferized module, whose buffers are placed in the arena.
        function: The entry function.
    """
    nests_by_text: dict[str, list[Nest]] = {}
    for op in list(function.regions[0].blocks[0].operations):
        if is_nest(op.operation):
            hoist_addresses(op.operation)
            nest = Nest.of(op.operation, module)
            nests_by_text.setdefault(nest.text, []).append(nest)
    fewest = 1 if len(nests_by_text) >= MANY else 2  # equal nests needed for a function
    number = 0
    for nests in nests_by_text.values():
        if len(nests) >= fewest:
            name, number = free_name(module, f"{FUNCTION}{number}"), number + 1
            nests[0].function.attributes["sym_name"] = ir.StringAttr.get(name)
            for nest in nests:
                with ir.InsertionPoint(nest.loop), nest.loop.location:
                    func.CallOp([], name, nest.outside)
                nest.loop.erase()
        for nest in nests[len(nests) >= fewest :]:
            nest.function.erase()


def is_nest(op: ir.Operation) -> bool:
    """Return whether an op is a loop, or is lowered to one, and has no results."""
    return not op.results and (op.name == LOOP or op.name.startswith(LINALG))


@dataclass(frozen=True)
class Nest:
    """A loop nest and its outlined copy.

    Attributes:
        loop: Loop nest.
        function: Function with a copy of it.
        outside: Captured values that are not constants: the arguments, in order of first use.
    """

    loop: ir.Operation
    function: ir.OpView
    outside: list[ir.Value]

    @classmethod
    def of(cls, loop: ir.Operation, module: ir.Module) -> "Nest":
        """Clone a loop into a new function, with a preliminary name, at the beginning of a module."""
        with ir.InsertionPoint.at_block_begin(module.body), loop.location:
            function = func.FuncOp(FUNCTION, ([], []), visibility="private")
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                terminator = func.ReturnOp([])
            copy = loop.clone(ir.InsertionPoint(terminator))
        function.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
        function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        ops = every_op(copy)
        outside = capture(ops, {value for op in ops for value in values_of(op)}, block, loop.location)
        argument_types = [value.type for value in outside]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(argument_types, []))
        take_addresses(function)
        return cls(loop, function, outside)

    @property
    def text(self) -> str:
        """IR of the function, by which nests are compared."""
        return str(self.function.operation.get_asm(use_local_scope=True, assume_verified=True))


def hoist_addresses(loop: ir.Operation) -> None:
    """Hoist address computations of arena buffers out of a loop, as they differ between otherwise equal nests."""
    for op in every_op(loop):
        if op.name in ADDRESSES:
            for value in op.operands:
                if is_constant(value):
                    value.owner.operation.move_before(loop)
            op.move_before(loop)
