"""Rewrites of slices that avoid copies.

Elements of slices are read from the source, element-wise operations read strided slices by strided maps, and negative
pads become slices.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import index, is_constant, maker, static_slice

SLICES = ("tensor.extract_slice", "tensor.insert_slice", "tensor.parallel_insert_slice")


def cut_negative_pads(module: ir.Module) -> bool:
    """Split pads with negative amounts into a slice and a non-negative pad, in place; return whether there were any.

        p = pad x by -1 in front, 2 behind   ->   p = pad x[1:] by 0 in front, 2 behind

    Upstream lowers negative pads to writes out of bounds.
    """
    pads = [op for op in every_op(module) if op.name == "tensor.pad" and is_negative(op)]
    for pad in pads:
        source, padded_type = pad.operands[0], pad.results[0].type
        low, high = amounts(pad)
        offsets = [max(-amount, 0) for amount in low]
        sizes = [
            size - first - max(-last, 0) for size, first, last in zip(source.type.shape, offsets, high, strict=True)
        ]
        left = ir.RankedTensorType.get(sizes, padded_type.element_type)
        with ir.InsertionPoint(pad), pad.location:
            pad.operands[0] = tensor.extract_slice(left, source, [], [], [], offsets, sizes, [1] * len(sizes))
        for side, side_amounts in (("low", low), ("high", high)):
            pad.attributes[f"static_{side}"] = ir.DenseI64ArrayAttr.get([max(amount, 0) for amount in side_amounts])
    if pads:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(pads)


def step_once_along_one(module: ir.Module) -> bool:
    """Set the stride of slices to 1 in dimensions of size 1, in place; return whether any was changed.

    The stride of a unit dimension has no effect, but upstream fails on rank-reducing views with one.
    """
    changed = False
    for op in every_op(module):
        if op.name not in SLICES:
            continue
        sizes, steps = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{field}"])) for field in ("sizes", "strides"))
        new_steps = [1 if size == 1 and step > 0 else step for size, step in zip(sizes, steps, strict=True)]
        if new_steps != steps:
            op.attributes["static_strides"] = ir.DenseI64ArrayAttr.get(new_steps)
            changed = True
    return changed


def is_negative(pad: ir.Operation) -> bool:
    """Return whether a static pad has a negative amount."""
    is_static = len(pad.operands) == 1 and pad.operands[0].type.has_static_shape
    return is_static and any(amount < 0 for side in amounts(pad) for amount in side)


def amounts(pad: ir.Operation) -> tuple[list[int], list[int]]:
    """Return the static low and high amounts of a pad, by dimension."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    return low, high


def read_elements_of_wholes(module: ir.Module) -> None:
    """Let bodies that extract elements of a slice extract them from its source, in place.

        s = x[.., 3:5];  y = s[.., i]   ->   y = x[.., i + 3]

    A slice need not be contiguous in memory, in which case upstream does not vectorize the reads.
    """
    changed = False
    for read in [op for op in every_op(module) if op.name == "tensor.extract"]:
        inner = read.operation
        while (cut := maker(inner.operands[0])) is not None and is_plain(cut):
            inner, changed = read_of_whole(inner, cut), True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def read_of_whole(read: ir.Operation, cut: ir.Operation) -> ir.Operation:
    """Replace a read of an element of a slice with constant offsets by a read of the source of the slice."""
    slice_indices, remaining_sizes, indices = list(read.operands)[1:], list(cut.results[0].type.shape), []
    with ir.InsertionPoint(read), read.location:
        for offset, size, stride in zip(*static_slice(cut), strict=True):
            if (
                remaining_sizes and remaining_sizes[0] == size
            ):  # among several unit dimensions, it does not matter which one is dropped
                remaining_sizes.pop(0)
                along = slice_indices.pop(0)
                along = arith.muli(along, index(stride)) if stride != 1 else along
                indices.append(arith.addi(along, index(offset)) if offset else along)
            else:
                indices.append(index(offset))
        element = tensor.extract(cut.operands[0], indices)
    read.results[0].replace_all_uses_with(element)
    read.erase()
    return maker(element)


def is_plain(cut: ir.Operation) -> bool:
    """Return whether an operation is a static slice with unit strides and without rank reduction."""
    return is_known_slice(cut) and set(static_slice(cut)[2]) == {1}


def is_known_slice(cut: ir.Operation | None) -> bool:
    """Return whether an operation is a static slice without rank reduction."""
    if cut is None or cut.name != "tensor.extract_slice" or len(cut.operands) != 1:
        return False
    return len(cut.results[0].type.shape) == len(cut.operands[0].type.shape)


def read_in_steps(module: ir.Module) -> None:
    """Let element-wise operations that read strided slices read the source by strided maps, in place.

        s = x[.., 1::2];  y = f(s[.., i])   ->   y = f(x[.., 2 i + 1])

    Elements of such a slice are not adjacent in memory: schedules of strided maps select lanes of vectors instead.
    """
    changed = False
    for op in every_op(module):
        if op.name != "linalg.generic" or "reduction" in str(op.attributes["iterator_types"]):
            continue
        maps = indexing_maps(op)
        for number in range(len(op.operands) - len(op.results)):
            value, amap = op.operands[number], maps[number]
            cuts = list(cuts_by_steps(value))
            if any(static_slice(cut)[2][-1] > 1 for cut in cuts):
                for cut in cuts:
                    value, amap = before_steps(cut, value, amap)
                op.operands[number], maps[number], changed = value, amap, True
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def cuts_by_steps(value: ir.Value) -> Iterator[ir.Operation]:
    """Yield the chain of static strided slices that a value is taken by, the last one first."""
    cut = maker(value)
    while cut is not None and is_known_slice(cut) and not set(static_slice(cut)[2]) <= {1}:
        yield cut
        cut = maker(cut.operands[0])


def before_steps(cut: ir.Operation, value: ir.Value, amap: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """Return the source of a strided slice, sliced in dimensions without stride or offset, and its indexing map.

    Args:
        cut: Strided slice.
        value: Result of the slice, or a leading part of it, that is read.
        amap: Indexing map of the value.
    """
    offsets, _, steps = static_slice(cut)
    source, results = cut.operands[0], list(amap.results)
    shape = list(source.type.shape)
    for d, step in enumerate(steps):
        if step > 1 or offsets[d]:
            results[d] = results[d] * step + offsets[d]
        else:
            shape[d] = value.type.shape[d]
    if shape != list(source.type.shape):
        with ir.InsertionPoint(cut), cut.location:
            source_type = ir.RankedTensorType.get(shape, source.type.element_type)
            source = tensor.extract_slice(source_type, source, [], [], [], [0] * len(shape), shape, [1] * len(shape))
    return source, ir.AffineMap.get(amap.n_dims, 0, results)


def is_plain_pad(pad: ir.Operation) -> bool:
    """Return whether a pad has a constant value and static shapes and amounts."""
    body = [inner.operation for inner in pad.regions[0].blocks[0].operations]
    is_static = pad.operands[0].type.has_static_shape and pad.results[0].type.has_static_shape
    return is_static and len(pad.operands) == 1 and len(body) == 1 and is_constant(body[0].operands[0])
