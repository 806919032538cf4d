"""Replace pads of one tensor by slices of the widest pad, for convolutions along rows.

    p = pad x by 1 and 1;  q = pad x by 1 and 0   ->   p = pad x by 1 and 1;  q = p[.., : -1]

A slice is read without a copy. The phases of a transposed convolution pad their input by different amounts.
"""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.module import every_op
from autotune.compiler.normalise.convolution.along_rows import goes_along_rows
from autotune.compiler.normalise.shapes.slices import amounts, is_plain_pad


def share_pads(module: ir.Module) -> None:
    """Replace pads by slices of a preceding wider pad, in place."""
    for pads in pads_of_one(module):
        widest = max(pads, key=lambda pad: sum(pad.results[0].type.shape))
        for pad in pads:
            if pad != widest and widest.is_before_in_block(pad) and is_part(pad, widest):
                with ir.InsertionPoint(pad), pad.location:
                    part = part_of_pad(widest, pad.results[0].type, amounts(pad)[0])
                pad.results[0].replace_all_uses_with(part)
                pad.erase()


def part_of_pad(widest: ir.Operation, tensor_type: ir.RankedTensorType, before: Sequence[int]) -> ir.Value:
    """Build the slice of a pad that equals another pad of the same tensor.

    Args:
        widest: Pad to slice.
        tensor_type: Type of the result of the other pad.
        before: Low padding of the other pad, by dimension.
    """
    offsets = [most - mine for most, mine in zip(amounts(widest)[0], before, strict=True)]
    return tensor.extract_slice(
        tensor_type, widest.results[0], [], [], [], offsets, list(tensor_type.shape), [1] * tensor_type.rank
    )


def pads_of_one(module: ir.Module) -> list[list[ir.Operation]]:
    """Return groups of static constant pads of the same tensor, value and block, used by convolutions along rows.

    Each group is in program order.
    """
    groups: dict[tuple[ir.Value, str, ir.Block], list[ir.Operation]] = {}
    for op in every_op(module):
        if op.name == "tensor.pad" and is_plain_pad(op) and is_along_rows(op):
            groups.setdefault((op.operands[0], constant_of(op), op.block), []).append(op)
    return list(groups.values())


def constant_of(pad: ir.Operation) -> str:
    """Return the constant value of a plain pad, as text."""
    return str(pad.regions[0].blocks[0].operations[0].operation.operands[0].owner.attributes["value"])


def is_along_rows(pad: ir.Operation) -> bool:
    """Return whether all users of a pad are convolutions along rows."""
    return all(goes_along_rows(use.owner.operation) for use in pad.results[0].uses)


def is_part(pad: ir.Operation, widest: ir.Operation) -> bool:
    """Return whether the result of a pad is a slice of that of another."""
    return all(
        mine <= most
        for sides in zip(amounts(pad), amounts(widest), strict=True)
        for mine, most in zip(*sides, strict=True)
    )
