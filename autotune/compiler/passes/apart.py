"""Outline fusion groups of a model into separate functions while schedules are applied.

The time of a transform op may grow with the size of the enclosing function: fusion formats a message for the case of
failure, and printing an op verifies and numbers its whole function. An imported model contains all layers in one
function, which would be verified a thousand times.

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

FUNCTION = "__autotune_apart_"  # prefix of the names of the functions
COPIED = "tensor.empty"  # cloned into every group, like constants


@dataclass(frozen=True)
class Apart:
    """An outlined fusion group.

    Attributes:
        function: Function that contains the group.
        call: The only call of the function, in place of the group.
    """

    function: ir.OpView
    call: ir.OpView

    def bring_back(self) -> None:
        """Inline the function at its call, and erase it."""
        (block,) = self.function.regions[0].blocks
        *body, terminator = block.operations
        for argument, value in zip(block.arguments, self.call.operands, strict=True):
            argument.replace_all_uses_with(value)
        for op in body:
            op.operation.move_before(self.call.operation)
        for result, value in zip(self.call.results, list(terminator.operands), strict=True):
            result.replace_all_uses_with(value)
        self.call.operation.erase()
        self.function.operation.erase()


def set_apart(module: ir.Module, function: ir.OpView) -> list[Apart]:
    """Outline every tagged op, with the producers that only it uses, into a function.

    Args:
        module: Module on tensors.
        function: The entry function.
    """
    groups = list(groups_of(function.regions[0].blocks[0]))
    return [moved_apart(module, ops, number) for number, ops in enumerate(groups)]


def groups_of(block: ir.Block) -> Iterator[list[ir.Operation]]:
    """Yield the groups of a block: an op that is or contains a tagged op, after the producers that only it uses."""
    owners: dict[ir.Operation, int] = {}
    groups: dict[int, list[ir.Operation]] = {}
    for number, view in reversed(list(enumerate(block.operations))):
        op = view.operation
        readers = {owners.get(ancestor_in(block, use.owner.operation)) for result in op.results for use in result.uses}
        if any(TAG in each.attributes for each in every_op(op)):
            owners[op] = number
        elif len(readers) == 1 and (owner := readers.pop()) is not None:
            owners[op] = owner
        if op in owners:
            groups.setdefault(owners[op], []).append(op)
    for _, ops in sorted(groups.items()):
        yield ops[::-1]


def moved_apart(module: ir.Module, ops: Sequence[ir.Operation], number: int) -> Apart:
    """Move ops into a new function; only results of the last one may be used by other ops."""
    root = ops[-1]
    with ir.InsertionPoint.at_block_begin(module.body), root.location:
        result_types = [result.type for result in root.results]
        outlined = func.FuncOp(f"{FUNCTION}{number}", ([], result_types), visibility="private")
        block = outlined.add_entry_block()
    ops_inside = [each for op in ops for each in every_op(op)]
    values_inside = {value for op in ops_inside for value in values_of(op)}
    outside = capture(ops_inside, values_inside, block, root.location, is_copied)
    function_type = ir.FunctionType.get([value.type for value in outside], result_types)
    outlined.attributes["function_type"] = ir.TypeAttr.get(function_type)
    with ir.InsertionPoint(root), root.location:
        call = func.CallOp(result_types, outlined.name.value, outside)
    for result, value in zip(list(root.results), call.results, strict=True):
        result.replace_all_uses_with(value)
    with ir.InsertionPoint(block), root.location:
        end = func.ReturnOp(list(root.results))
    for op in ops:
        op.move_before(end.operation)
    return Apart(outlined, call)


def is_copied(value: ir.Value) -> bool:
    """Return whether a value is cloned rather than captured: a constant, or a static tensor.empty."""
    return is_constant(value) or (isinstance(value.owner, ir.Operation | ir.OpView) and is_empty(value))


def is_empty(value: ir.Value) -> bool:
    """Return whether a value is a tensor.empty of static shape."""
    owner = value.owner.operation
    return owner.name == COPIED and not len(owner.operands)
