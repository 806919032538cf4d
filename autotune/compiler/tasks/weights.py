"""Trace an operand to the weight argument that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.values import maker, static_slice


@dataclass(frozen=True)
class Weight:
    """Weight that an operand reads, whole or as a slice of its leading dimensions.

    Attributes:
        argument: Block argument of the entry function.
        slice: Operation ``tensor.extract_slice`` between argument and operand, if there is one.
        shape: Shape of the whole weight as it is read; the argument may hold it with dimensions collapsed.
    """

    argument: ir.BlockArgument
    slice: ir.Operation | None
    shape: tuple[int, ...]


def weight_behind(value: ir.Value, roles: Sequence[str]) -> Weight | None:
    """Return the weight that an operand reads, whole in its last two dimensions; `None` if it reads anything else.

    Args:
        value: Operand of an operation in the entry function.
        roles: Role of each argument of that function.
    """
    producer, slice_op = maker(value), None
    if producer is not None and producer.name == "tensor.extract_slice":
        slice_op, producer = producer, maker(producer.operands[0])
        if not keeps_matrix(slice_op):
            return None
    source_value = slice_op.operands[0] if slice_op is not None else value
    if producer is not None and producer.name == "tensor.expand_shape":
        producer = maker(producer.operands[0])
    if producer is None or producer.name != "bufferization.to_tensor":
        return None
    source = producer.operands[0]
    if not isinstance(source.owner, ir.Block):
        return None
    argument = ir.BlockArgument(source)
    function = argument.owner.owner
    if function.operation.name != "func.func" or roles[argument.arg_number] != "weight":
        return None
    return Weight(argument, slice_op, tuple(source_value.type.shape))


def keeps_matrix(cut: ir.Operation) -> bool:
    """Return whether a slice takes the last two dimensions whole and drops all others."""
    offsets, sizes, strides = static_slice(cut)
    matrix_shape = list(ir.RankedTensorType(cut.operands[0].type).shape)[-2:]
    rank = ir.RankedTensorType(cut.results[0].type).rank
    return rank == 2 and sizes[-2:] == matrix_shape and offsets[-2:] == [0, 0] and all(s == 1 for s in strides)
