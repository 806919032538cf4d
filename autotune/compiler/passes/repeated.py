"""Repeated nests: loops that a program has several times, on other buffers, become calls of one function.

A model that was imported has its layers one after the other. LLVM would compile each anew, and takes far more than
twelve times as long for twelve layers as for one. Nests are the same if all they say is, types of what they read from
outside included; what lies outside becomes the function's arguments.

    scf.for ... { %a, %b }        func.func private @__autotune_nest_0(%x, %y) { scf.for ... { %x, %y } }
    scf.for ... { %b, %c }   ->   call @__autotune_nest_0(%a, %b)
                                  call @__autotune_nest_0(%b, %c)

Of many nests, those that a program has once become functions too: LLVM's time grows faster than a function does.
"""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from autotune.compiler.ir.addresses import take_addresses
from autotune.compiler.ir.captures import capture
from autotune.compiler.ir.module import every_op, free_name
from autotune.compiler.ir.values import is_constant, values_of
from autotune.core.scripts.marks import TAG

FUNCTION = "__autotune_nest_"  # begin of the names of the functions
LOOP, LINALG = "scf.for", "linalg."  # ops of linalg that are left become loops
MANY = 32  # nests, from which on each is a function
ADDRESSES = ("memref.get_global", "memref.view")  # what says where in the arena a buffer of a nest lies


def repeats_tasks(function: ir.OpView) -> bool:
    """Tell whether a function has several ops of one task, one after the other, or many ops."""
    tags = [str(op.attributes[TAG]) for op in function.regions[0].blocks[0].operations if TAG in op.attributes]
    return len(set(tags)) < len(tags) or len(tags) >= MANY


def share_nests(module: ir.Module, function: ir.OpView) -> None:
    """Let nests of a function that say the same be one function, in place; and each of many be one.

    Args:
        module: Bufferized module, whose buffers have their offsets in the arena.
        function: The entry function.
    """
    found: dict[str, list[Nest]] = {}
    for op in list(function.regions[0].blocks[0].operations):
        if is_nest(op.operation):
            hoist_addresses(op.operation)
            nest = Nest.of(op.operation, module)
            found.setdefault(nest.text, []).append(nest)
    fewest = 1 if len(found) >= MANY else 2  # nests that say the same, for which a function is worth it
    number = 0
    for nests in found.values():
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
    """Tell whether an op is a loop, or becomes one, and gives nothing but what it writes to buffers."""
    return not op.results and (op.name == LOOP or op.name.startswith(LINALG))


@dataclass(frozen=True)
class Nest:
    """A loop, and a function that does the same.

    Attributes:
        loop: The loop.
        function: The function.
        outside: What the loop reads from outside and is no constant: the arguments, in the order they are read in.
    """

    loop: ir.Operation
    function: ir.OpView
    outside: list[ir.Value]

    @classmethod
    def of(cls, loop: ir.Operation, module: ir.Module) -> "Nest":
        """Write the function of a loop, without a name of its own, at the begin of a module."""
        with ir.InsertionPoint.at_block_begin(module.body), loop.location:
            function = func.FuncOp(FUNCTION, ([], []), visibility="private")
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                end = func.ReturnOp([])
            copy = loop.clone(ir.InsertionPoint(end))
        function.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
        function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        ops = every_op(copy)
        outside = capture(ops, {value for op in ops for value in values_of(op)}, block, loop.location)
        kinds = [value.type for value in outside]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
        take_addresses(function)
        return cls(loop, function, outside)

    @property
    def text(self) -> str:
        """All that it says."""
        return str(self.function.operation.get_asm(use_local_scope=True, assume_verified=True))


def hoist_addresses(loop: ir.Operation) -> None:
    """Move addresses of buffers in the arena before a loop: they are others in each nest, and no part of it."""
    for op in every_op(loop):
        if op.name in ADDRESSES:
            for value in op.operands:
                if is_constant(value):
                    value.owner.operation.move_before(loop)
            op.move_before(loop)
