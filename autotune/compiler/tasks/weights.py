"""Finding the weight behind an operand of an op."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.values import maker, static_slice


@dataclass(frozen=True)
class Weight:
    """A whole weight, or one of its leading slices, as an operand sees it.

    Attributes:
        argument: Block argument of the entry function.
        slice: The ``tensor.extract_slice`` in between, if there is one.
        shape: Shape of the whole weight, as it is read: an argument may hold it with dimensions made one.
    """

    argument: ir.BlockArgument
    slice: ir.Operation | None
    shape: tuple[int, ...]


def weight_behind(value: ir.Value, roles: Sequence[str]) -> Weight | None:
    """The weight argument an operand reads, whole in its last two dimensions; `None` if it is anything else.

    Args:
        value: Operand of an op in the entry function.
        roles: Role of each argument of that function.
    """
    made_by, cut = maker(value), None
    if made_by is not None and made_by.name == "tensor.extract_slice":
        cut, made_by = made_by, maker(made_by.operands[0])
        if not keeps_matrix(cut):
            return None
    whole = cut.operands[0] if cut is not None else value
    if made_by is not None and made_by.name == "tensor.expand_shape":
        made_by = maker(made_by.operands[0])
    if made_by is None or made_by.name != "bufferization.to_tensor":
        return None
    source = made_by.operands[0]
    if not isinstance(source.owner, ir.Block):
        return None
    argument = ir.BlockArgument(source)
    function = argument.owner.owner
    if function.operation.name != "func.func" or roles[argument.arg_number] != "weight":
        return None
    return Weight(argument, cut, tuple(whole.type.shape))


def keeps_matrix(cut: ir.Operation) -> bool:
    """Tell whether a slice takes the last two dimensions whole and drops all others."""
    offsets, sizes, strides = static_slice(cut)
    whole = list(ir.RankedTensorType(cut.operands[0].type).shape)[-2:]
    rank = ir.RankedTensorType(cut.results[0].type).rank
    return rank == 2 and sizes[-2:] == whole and offsets[-2:] == [0, 0] and all(s == 1 for s in strides)
