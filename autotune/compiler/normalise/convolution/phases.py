"""Phases of a transposed convolution: dense convolutions of one tensor whose results are interleaved, all in NHWC.

    p = pad x by 1, 1;  q = pad x by 0, 1;  c = concat (conv p), (conv q)
      ->   p = pad x by 1, 1;  q = p[.., 1 :];  c = concat (conv p), (conv q)

If converted separately, each would get its own layout, and its input would be padded and transposed for each. Converted
together, the input is transposed once, and each phase is written to strided rows and columns of one NHWC tensor. If one
convolution computes all phases, they are interleaved from its NHWC result without transposing it back. Volumes are
treated likewise, with one more spatial dimension.
"""

from collections.abc import Mapping
from itertools import accumulate, product
from math import prod

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker, permutation_of, reassociation
from autotune.compiler.normalise.convolution.along_rows import MOVED, TOGETHER, times_of
from autotune.compiler.normalise.convolution.pointwise import PLANES, VOLUMES
from autotune.compiler.normalise.convolution.shared_pads import constant_of, is_part, part_of_pad
from autotune.compiler.normalise.emit import unflat
from autotune.compiler.normalise.shapes.dimensions import RESHAPES
from autotune.compiler.normalise.shapes.slices import amounts, is_plain_pad

CHANNELS = 1  # dimension of channels in (n, c, h, w)
SPATIAL = 2  # first spatial dimension


def mark_phases(module: ir.Module) -> None:
    """Mark convolutions that are phases of a transposed convolution, and let them read slices of one pad, in place."""
    for op in every_op(module):
        if op.name == "tensor.concat" and op.attributes["dim"].value == CHANNELS:
            phases = [maker(value) for value in op.operands]
            if all(is_phase(each) for each in phases) and len(phases) > 1:
                take_together([each for each in phases if each is not None])


def is_phase(op: ir.Operation | None) -> bool:
    """Return whether an operation is a convolution whose result has a single use."""
    return op is not None and op.name in (PLANES, VOLUMES) and len(list(op.results[0].uses)) == 1


def take_together(phases: list[ir.Operation]) -> None:
    """Mark convolutions if they read pads of one tensor that are slices of the widest, and NHWC is estimated faster."""
    pads = [maker(op.operands[0]) for op in phases]
    static_pads = [pad for pad in pads if pad is not None and pad.name == "tensor.pad" and is_plain_pad(pad)]
    sources = {pad.operands[0] for pad in static_pads} | {
        op.operands[0] for op, pad in zip(phases, pads, strict=True) if pad not in static_pads
    }
    if not static_pads or len(sources) > 1:
        return
    widest = max(static_pads, key=lambda pad: sum(pad.results[0].type.shape))
    if any(constant_of(pad) != constant_of(widest) or not is_part(pad, widest) for pad in static_pads):
        return
    if any(op.is_before_in_block(widest) for op in phases):
        return
    if not is_faster_together(phases, widest.results[0]):
        return
    for op, pad in zip(phases, pads, strict=True):
        op.attributes[TOGETHER] = ir.UnitAttr.get(op.context)
        if pad != widest:
            before = amounts(pad)[0] if pad in static_pads else [0] * op.operands[0].type.rank
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = part_of_pad(widest, op.operands[0].type, before)


def is_faster_together(phases: list[ir.Operation], x: ir.Value) -> bool:
    """Estimate whether convolutions are faster with channels last, including the transposed input, than along rows."""
    along_rows, of_channels = map(sum, zip(*map(times_of, phases), strict=True))
    return bool(of_channels + MOVED * prod(x.type.shape) < along_rows)


def interleave_phases(op: ir.Operation, last: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    """Build interleaved phases with channels last from a concatenation; `None` for any other operation.

    Args:
        op: Last operation of the interleaving, which collapses positions and phases.
        last: Values with channels last, by original value.
    """
    split = split_before(op)
    parts = phases_before(split, last) if split is not None else []
    if split is None or not parts:
        return None
    n, strides, channels, positions = sizes_of(split)
    whole = [position * stride for position, stride in zip(positions, strides, strict=True)]
    into = tensor.empty([n, *whole, channels], op.results[0].type.element_type)
    for phase, part in zip(product(*map(range, strides)), parts, strict=True):
        sizes = [n, *positions, channels]
        into = tensor.insert_slice(part, into, [], [], [], [0, *phase, 0], sizes, [1, *strides, 1])
    return into


def split_before(op: ir.Operation) -> ir.Operation | None:
    """Return the operation that expands channels into phases, given the last operation of the interleaving.

    Of r spatial dimensions, channels are expanded to r strides and channels, (n, strides.., c, positions..), these are
    transposed to (n, c, position, stride, ..), and each position and stride are collapsed.
    """
    joined = groups_of(op)
    rank = len(joined) - SPATIAL
    if joined != [[0], [1], *([2 + 2 * d, 3 + 2 * d] for d in range(rank))]:
        return None
    spread = maker(op.operands[0])
    apart = [0, rank + 1, *(axis for d in range(rank) for axis in (rank + 2 + d, 1 + d))]
    split = maker(spread.operands[0]) if spread is not None and permutation_of(spread) == apart else None
    return split if split is not None and is_split(split) else None


def is_split(op: ir.Operation) -> bool:
    """Return whether an operation expands channels into one stride for each spatial dimension, and channels."""
    groups = groups_of(op)
    rank = len(groups) - SPATIAL
    return groups == [[0], [*range(1, rank + 2)], *([rank + 2 + d] for d in range(rank))]


def sizes_of(split: ir.Operation) -> tuple[int, list[int], int, list[int]]:
    """Return batch, strides, channels and positions, given the operation that expands channels into phases."""
    rank = len(groups_of(split)) - SPATIAL
    n, *strides, channels = split.results[0].type.shape[:-rank]
    return n, strides, channels, split.results[0].type.shape[-rank:]


def phases_before(split: ir.Operation, last: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
    """Return the concatenated convolutions with channels last, one per phase; empty if there are none."""
    concat = maker(last[split.operands[0]]) if split.operands[0] in last else None
    if concat is None or concat.name != "tensor.concat" or not is_split(split):  # grouped ones also expand channels
        return []
    n, strides, channels, positions = sizes_of(split)
    shape = [n, *positions, channels]
    parts = list(concat.operands)
    same_shape = all(list(part.type.shape) == shape for part in parts)
    return parts if same_shape and len(parts) == prod(strides) else []


def spread_phases(op: ir.Operation, last: Mapping[ir.Value, ir.Value]) -> ir.Value | None:
    """Build a transpose of expanded channels from the NHWC value; `None` for any other operation.

    Args:
        op: Transpose.
        last: Values with channels last, by original value.
    """
    order, split = permutation_of(op), maker(op.operands[0]) if op.name == "linalg.transpose" else None
    if split is None or split.name != "tensor.expand_shape" or split.operands[0] not in last:
        return None
    if phases_before(split, last) and all(split_before(use.owner.operation) for use in op.results[0].uses):
        return None  # `interleave_phases` rewrites these
    n, channels, *positions = groups_of(split)
    groups_last = [n, *positions, channels]
    layout = [axis for group in groups_last for axis in group]
    shape, sizes = split.results[0].type.shape, [len(group) for group in groups_last]
    ends = list(accumulate(sizes))
    groups = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    expanded = unflat(last[split.operands[0]], groups, [shape[d] for d in layout])
    result_type = op.results[0].type
    into = tensor.empty(result_type.shape, result_type.element_type)
    return linalg.transpose(expanded, outs=[into], permutation=[layout.index(d) for d in order]).results[0]


def groups_of(op: ir.Operation) -> list[list[int]]:
    """Return the reassociation of a reshape; empty for any other operation."""
    return reassociation(op) if op.name in RESHAPES else []
