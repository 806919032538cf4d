"""Slices that others write as something else, or read elements of: one slice, or an element of the whole."""

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.values import index, maker, static_slice


def cut_negative_pads(module: ir.Module) -> bool:
    """Let pads by less than nothing be slices, and a pad of what is left, in place; tells whether there were any.

        p = pad x by -1 in front, 2 behind   ->   p = pad x[1:] by 0 in front, 2 behind

    Upstream writes outside of what is padded.
    """
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_negative(op)]
    for pad in pads:
        source, kind = pad.operands[0], pad.results[0].type
        low, high = amounts(pad)
        offsets = [max(-amount, 0) for amount in low]
        sizes = [
            size - first - max(-last, 0) for size, first, last in zip(source.type.shape, offsets, high, strict=True)
        ]
        left = ir.RankedTensorType.get(sizes, kind.element_type)
        with ir.InsertionPoint(pad), pad.location:
            pad.operands[0] = tensor.extract_slice(left, source, [], [], [], offsets, sizes, [1] * len(sizes))
        for side, given in (("low", low), ("high", high)):
            pad.attributes[f"static_{side}"] = ir.DenseI64ArrayAttr.get([max(amount, 0) for amount in given])
    if pads:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(pads)


def is_negative(pad: ir.Operation) -> bool:
    """Tell whether a pad of a static tensor, by amounts known beforehand, takes something away."""
    known = len(pad.operands) == 1 and pad.operands[0].type.has_static_shape
    return known and any(amount < 0 for side in amounts(pad) for amount in side)


def amounts(pad: ir.Operation) -> tuple[list[int], list[int]]:
    """By how much a pad makes each dimension longer, in front and behind."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    return low, high


def read_elements_of_wholes(module: ir.Module) -> None:
    """Let bodies that read elements of a slice read them of the tensor that it is cut from, in place.

        s = x[.., 3:5];  y = s[.., i]   ->   y = x[.., i + 3]

    Where a slice lies in memory, its elements need not follow each other, and upstream then reads no vectors of them.
    """
    changed = False
    for read in [op for op in every_op(module) if op.name == "tensor.extract"]:
        while (cut := maker(read.operands[0])) is not None and is_plain(cut):
            offsets, _, _ = static_slice(cut)
            with ir.InsertionPoint(read), read.location:
                for number, offset in enumerate(offsets, 1):
                    if offset:
                        read.operands[number] = arith.addi(read.operands[number], index(offset))
            read.operands[0] = cut.operands[0]
            changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def is_plain(cut: ir.Operation) -> bool:
    """Tell whether an op cuts a slice of all dimensions, known beforehand, without steps."""
    if cut.name != "tensor.extract_slice" or len(cut.operands) != 1:
        return False
    same_rank = len(cut.results[0].type.shape) == len(cut.operands[0].type.shape)
    return same_rank and set(static_slice(cut)[2]) == {1}
