"""Pads of one tensor that convolutions along rows read: the widest is made, and the others are parts of it.

    p = pad x by 1 and 1;  q = pad x by 1 and 0   ->   p = pad x by 1 and 1;  q = p[.., : -1]

A part is read where it lies. The phases of a transposed convolution read what they multiply in several widths.
"""

from collections.abc import Iterator
from itertools import groupby

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.along_rows import goes_along_rows


def share_pads(module: ir.Module) -> None:
    """Make pads parts of a wider one before them, in place."""
    for pads in pads_of_one(module):
        widest = max(pads, key=lambda pad: sum(pad.results[0].type.shape))
        for pad in pads:
            if pad != widest and widest.is_before_in_block(pad) and is_part(pad, widest):
                offsets = [most - mine for most, mine in zip(before(widest), before(pad), strict=True)]
                kind = pad.results[0].type
                with ir.InsertionPoint(pad), pad.location:
                    part = tensor.extract_slice(
                        kind, widest.results[0], [], [], [], offsets, list(kind.shape), [1] * kind.rank
                    )
                pad.results[0].replace_all_uses_with(part)
                pad.erase()


def pads_of_one(module: ir.Module) -> Iterator[list[ir.Operation]]:
    """Static pads by one constant of one tensor, those that convolutions along rows read, in program order."""
    found: dict[ir.Value, list[ir.Operation]] = {}
    for op in every_op(module):
        if op.name == "tensor.pad" and len(op.operands) == 1 and padded_by(op) is not None and is_along_rows(op):
            found.setdefault(op.operands[0], []).append(op)
    for pads in found.values():
        for _, alike in groupby(sorted(pads, key=padding), padding):
            together = list(alike)
            if len(together) > 1 and len({pad.block for pad in together}) == 1:
                yield together


def is_along_rows(pad: ir.Operation) -> bool:
    """Tell whether nothing but convolutions along rows read a pad."""
    return all(goes_along_rows(use.owner.operation) for use in pad.results[0].uses)


def padded_by(pad: ir.Operation) -> ir.Attribute | None:
    """The constant that a pad adds everywhere; `None` where it is none."""
    *_, end = pad.regions[0].blocks[0].operations
    made_by = maker(end.operands[0])
    return made_by.attributes["value"] if made_by is not None and made_by.name == "arith.constant" else None


def padding(pad: ir.Operation) -> str:
    """What a pad adds, to sort pads by."""
    return str(padded_by(pad))


def before(pad: ir.Operation) -> list[int]:
    """Elements that a pad adds before each dimension."""
    return list(ir.DenseI64ArrayAttr(pad.attributes["static_low"]))


def behind(pad: ir.Operation) -> list[int]:
    """Elements that a pad adds behind each dimension."""
    return list(ir.DenseI64ArrayAttr(pad.attributes["static_high"]))


def is_part(pad: ir.Operation, widest: ir.Operation) -> bool:
    """Tell whether a pad is a part of another."""
    sides = [*zip(before(pad), before(widest), strict=True), *zip(behind(pad), behind(widest), strict=True)]
    return all(mine <= most for mine, most in sides)
