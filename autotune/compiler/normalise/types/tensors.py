"""Functions from tensors to tensors, as importers write them, become functions over memrefs, as payloads are."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import bufferization, func

from autotune.compiler.ir.arguments import ROLE, pad, say
from autotune.core.errors import PayloadError

RESULTS = "res_attrs"


def take_memrefs(function: ir.OpView) -> bool:
    """Let a function read its tensors from memrefs, and write its results to memrefs behind them, in place.

    Args:
        function: A function of one block.

    Returns:
        Whether anything had to be changed.

    Raises:
        PayloadError: A tensor has no static shape, or a result is no tensor.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, results = list(kind.inputs), list(kind.results)
    if not results and not any(map(is_tensor, inputs)):
        return False
    block = function.regions[0].blocks[0]
    for number, value in enumerate(list(block.arguments)):
        if is_tensor(value.type):
            read_from_memref(block, value, number)
    write_results(block, results)
    kinds = [value.type for value in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    if RESULTS in function.attributes:
        del function.attributes[RESULTS]
    pad(function)
    for number in range(len(inputs), len(kinds)):
        say(function, number, {ROLE: ir.StringAttr.get("output")})
    return True


def is_tensor(kind: ir.Type) -> bool:
    """Tell whether a type is that of tensors."""
    return isinstance(kind, (ir.RankedTensorType, ir.UnrankedTensorType))


def memref_of(kind: ir.Type, what: str) -> ir.MemRefType:
    """The memref that holds a tensor.

    Raises:
        PayloadError: The type is no tensor of static shape.
    """
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        raise PayloadError(f"{what} must be a tensor of static shape, it is {kind}; export the model at fixed sizes")
    return ir.MemRefType.get(kind.shape, kind.element_type)


def read_from_memref(block: ir.Block, value: ir.Value, number: int) -> None:
    """Make a block argument a memref, and what reads it read the tensor there."""
    kind = value.type
    value.set_type(memref_of(kind, f"argument {number}"))
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        held = bufferization.to_tensor(kind, value, restrict=True)
    value.replace_all_uses_except(held, held.owner.operation)


def write_results(block: ir.Block, kinds: Sequence[ir.Type]) -> None:
    """Write what a block returns to new arguments."""
    end = block.operations[len(block.operations) - 1].operation
    results = list(end.operands)
    with ir.InsertionPoint(end), ir.Location.unknown():
        for number, (value, kind) in enumerate(zip(results, kinds, strict=True)):
            target = block.add_argument(memref_of(kind, f"result {number}"), ir.Location.unknown())
            bufferization.materialize_in_destination(None, value, target, restrict=True, writable=True)
        func.ReturnOp([])
    end.erase()
