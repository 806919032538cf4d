"""Groups apart: while schedules are applied, each group of a model's ops stands in a function of its own.

What the interpreter does to one group may take as long as the function around is large: fusing an op writes a message
for the case that it fails, with the ops in it, and to print an op all of its function is verified and numbered. A model
that was imported has its layers one after the other, and would be verified a thousand times.

    func.func @main { %a ; %b = f(%a) {autotune.task} }   ->   func.func private @__autotune_apart_0 { %a ; %b = f(%a) }
                                                               func.func @main { call @__autotune_apart_0 }
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from autotune.compiler.ir.captures import capture
from autotune.compiler.ir.module import ancestor_in, every_op
from autotune.compiler.ir.values import is_constant, values_of
from autotune.core.scripts.marks import TAG

FUNCTION = "__autotune_apart_"  # begin of the names of the functions
COPIED = "tensor.empty"  # every group has its own, as it has constants


@dataclass(frozen=True)
class Apart:
    """A group in a function of its own.

    Attributes:
        function: The function.
        call: The only call of the function, where the group was.
    """

    function: ir.OpView
    call: ir.OpView

    def bring_back(self) -> None:
        """Put what the function holds now where its call is."""
        (block,) = self.function.regions[0].blocks
        *body, end = block.operations
        for argument, value in zip(block.arguments, self.call.operands, strict=True):
            argument.replace_all_uses_with(value)
        for op in body:
            op.operation.move_before(self.call.operation)
        for result, value in zip(self.call.results, list(end.operands), strict=True):
            result.replace_all_uses_with(value)
        self.call.operation.erase()
        self.function.operation.erase()


def set_apart(module: ir.Module, function: ir.OpView) -> list[Apart]:
    """Put every op that carries a tag, with what it alone reads, into a function of its own.

    Args:
        module: Module on tensors.
        function: The entry function.
    """
    groups = list(groups_of(function.regions[0].blocks[0]))
    return [moved_apart(module, ops, number) for number, ops in enumerate(groups)]


def groups_of(block: ir.Block) -> Iterator[list[ir.Operation]]:
    """Ops of a block that carry a tag, or hold one that does, each behind what is read for it alone."""
    owners: dict[ir.Operation, int] = {}
    found: dict[int, list[ir.Operation]] = {}
    for number, view in reversed(list(enumerate(block.operations))):
        op = view.operation
        readers = {owners.get(ancestor_in(block, use.owner.operation)) for result in op.results for use in result.uses}
        if any(TAG in each.attributes for each in every_op(op)):
            owners[op] = number
        elif len(readers) == 1 and (owner := readers.pop()) is not None:
            owners[op] = owner
        if op in owners:
            found.setdefault(owners[op], []).append(op)
    for _, ops in sorted(found.items()):
        yield ops[::-1]


def moved_apart(module: ir.Module, ops: Sequence[ir.Operation], number: int) -> Apart:
    """Move ops into a function of their own, the last of which others may read."""
    root = ops[-1]
    with ir.InsertionPoint.at_block_begin(module.body), root.location:
        kinds = [result.type for result in root.results]
        made = func.FuncOp(f"{FUNCTION}{number}", ([], kinds), visibility="private")
        block = made.add_entry_block()
    inside = [each for op in ops for each in every_op(op)]
    mine = {value for op in inside for value in values_of(op)}
    outside = capture(inside, mine, block, root.location, is_copied)
    kind = ir.FunctionType.get([value.type for value in outside], kinds)
    made.attributes["function_type"] = ir.TypeAttr.get(kind)
    with ir.InsertionPoint(root), root.location:
        call = func.CallOp(kinds, made.name.value, outside)
    for result, value in zip(list(root.results), call.results, strict=True):
        result.replace_all_uses_with(value)
    with ir.InsertionPoint(block), root.location:
        end = func.ReturnOp(list(root.results))
    for op in ops:
        op.move_before(end.operation)
    return Apart(made, call)


def is_copied(value: ir.Value) -> bool:
    """Whether a value costs nothing to have twice: a constant, or a tensor of which nothing is written."""
    return is_constant(value) or (isinstance(value.owner, ir.Operation | ir.OpView) and is_empty(value))


def is_empty(value: ir.Value) -> bool:
    """Whether a value is a tensor of which nothing is written, of a size that is known."""
    owner = value.owner.operation
    return owner.name == COPIED and not len(owner.operands)
