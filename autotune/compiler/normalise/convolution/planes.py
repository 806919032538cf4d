"""Rewrite 3-D depthwise convolutions that importers express over 2-D planes to read the volumes directly.

    P[n d, c, e] = x[n, c, s d + t e]  (a plane);  y[n d, c] += K[c, e] * P[n d, c, e]
      ->   y[n, d, c] += K[c, e] * x[n, c, s d + t e]

Each plane was copied once per kernel position along the depth: for a kernel of 5x5x5, five times the input.
"""

from dataclasses import dataclass
from itertools import pairwise

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import CLEAN, every_op, replace_ops
from autotune.compiler.ir.values import fill_of, maker, maker_named, permutation_of, reassociation, static_slice
from autotune.compiler.normalise.convolution.channels_first import cut
from autotune.compiler.normalise.convolution.grouped import named_steps, read_at, sum_products
from autotune.compiler.normalise.convolution.window_sums import holds_f32
from autotune.compiler.normalise.convolution.windows import bias_of, step_attributes, steps_of, with_bias
from autotune.compiler.normalise.emit import dims, filled, flat, unflat

CONVOLUTION = "linalg.conv_2d_ngchw_gfchw"
ORDER, MERGED = [0, 3, 1, 2, 4, 5], [[0, 1], [2], [3], [4], [5]]  # planes (n, c, e, d, h, w) -> (n d, c, e, h, w)
SPLIT = [[0], [1, 2], [3], [4]]  # expansion of planes (n d, c, h, w) to groups
DEPTH, TAPS = 2, 2  # dimension of the depth in volumes, and of the kernel position in planes


@dataclass(frozen=True)
class PlanesOfVolumes:
    """Planes of volumes that a convolution reads.

    Attributes:
        volumes: Tensor of volumes, ``(n, c, depth, h, w)``.
        positions: Number of output positions along the depth.
        stride: Stride along the depth.
        begins: Plane of the first output position, for each kernel position.
    """

    volumes: ir.Value
    positions: int
    stride: int
    begins: tuple[int, ...]

    @property
    def dilation(self) -> int:
        """Dilation along the depth."""
        return self.begins[1] - self.begins[0]


def read_volumes(module: ir.Module) -> None:
    """Let depthwise convolutions read volumes instead of copies of their planes, in place."""
    matches = {op: planes for op in every_op(module) if (planes := planes_of(op)) is not None}
    replace_ops(module, matches, lambda op: sum_volumes(op, matches[op]), passes=CLEAN)


def planes_of(op: ir.Operation) -> PlanesOfVolumes | None:
    """Match the planes of volumes that a convolution reads; `None` if it does not match."""
    concat = concat_of(op)
    cuts = [cut_of(plane) for plane in concat.operands] if concat is not None else []
    slices = [cut for cut in cuts if cut is not None]
    parts = [static_slice(cut) for cut in slices]
    shared = {(cut.operands[0], *sizes, *strides) for cut, (_, sizes, strides) in zip(slices, parts, strict=True)}
    if len(slices) < len(cuts) or len(shared) != 1:
        return None
    volumes, (_, sizes, strides) = slices[0].operands[0], parts[0]
    begins = tuple(offsets.pop(DEPTH) for offsets, _, _ in parts)
    positions, stride, plane_shape = sizes.pop(DEPTH), strides.pop(DEPTH), list(volumes.type.shape)
    del plane_shape[DEPTH]
    distances = {after - before for before, after in pairwise(begins)}
    if (
        sizes != plane_shape
        or set(strides) != {1}
        or any(any(offsets) for offsets, _, _ in parts)
        or len(distances) != 1
    ):
        return None
    return PlanesOfVolumes(volumes, positions, stride, begins)


def concat_of(op: ir.Operation) -> ir.Operation | None:
    """Return the concatenation of planes that a convolution reads; `None` if absent.

    With several filters per group, strided rows are left as they are: their elements are not side by side.
    """
    if op.name != CONVOLUTION or not all(map(holds_f32, op.operands)):
        return None
    if steps_of(op, "strides")[1] != 1 and not has_one_filter(op):
        return None
    merged = maker_named(op.operands[0], "tensor.collapse_shape")
    transpose = maker(merged.operands[0]) if merged and reassociation(merged) == MERGED else None
    concat = (
        maker_named(transpose.operands[0], "tensor.concat")
        if transpose and permutation_of(transpose) == ORDER
        else None
    )
    return concat if concat and ir.IntegerAttr(concat.attributes["dim"]).value == TAPS else None


def cut_of(plane: ir.Value) -> ir.Operation | None:
    """Return the slice of volumes that a plane is expanded from; `None` if it is not."""
    expand = maker_named(plane, "tensor.expand_shape")
    cut = maker_named(expand.operands[0], "tensor.extract_slice") if expand else None
    if cut is None or len(cut.operands) > 1:
        return None
    n, channels, *sides = cut.results[0].type.shape
    return cut if list(plane.type.shape) == [n, channels, 1, *sides] else None


def sum_volumes(op: ir.Operation, planes: PlanesOfVolumes) -> ir.Value:
    """Build the convolution over volumes."""
    kernel, start = op.operands[1], op.operands[2]
    bias, fill = bias_of_groups(start), fill_of(start)
    if has_one_filter(op) and (bias is not None or fill is not None):
        number = arith.constant(start.type.element_type, 0.0) if fill is None else fill.operands[0]
        return convolve_volumes(op, planes, bias, number)
    shape = [planes.volumes.type.shape[0], planes.positions, *start.type.shape[1:]]
    n, d, g, f, h, w, e, i, j = dims(9)
    rows, columns = read_at(named_steps(op), (h, w), (i, j))
    depth = d * planes.stride + e * planes.dilation + planes.begins[0]
    indices = (n, g, depth, rows, columns), (g, f, e, i, j), (n, d, g, f, h, w)
    summed = sum_products(planes.volumes, kernel, unflat(start, MERGED, shape), indices, kernel.type.shape[2:])
    return flat(summed, MERGED)


def has_one_filter(op: ir.Operation) -> bool:
    """Return whether a grouped convolution has one filter per group."""
    return bool(op.results[0].type.shape[2] == 1)


def bias_of_groups(start: ir.Value) -> ir.Value | None:
    """Return the vector that an initial value of groups broadcasts along channels; `None` if it does not."""
    split = maker_named(start, "tensor.expand_shape")
    return bias_of(split.operands[0]) if split is not None and split.operands[0].type.rank == len(SPLIT) else None


def convolve_volumes(op: ir.Operation, planes: PlanesOfVolumes, bias: ir.Value | None, number: ir.Value) -> ir.Value:
    """Build the convolution by the named operation of upstream, which one filter a group has."""
    n, channels, _, *plane = planes.volumes.type.shape
    *_, taps, _, _ = op.operands[1].type.shape
    span = (planes.positions - 1) * planes.stride + (taps - 1) * planes.dilation + 1
    volumes = cut(planes.volumes, [0, 0, planes.begins[0], 0, 0], [n, channels, span, *plane])
    shape = [n, channels, planes.positions, *op.results[0].type.shape[3:]]
    into = filled(shape, volumes.type.element_type, number)
    attributes = step_attributes(
        [planes.stride, *steps_of(op, "strides")], [planes.dilation, *steps_of(op, "dilations")]
    )
    kernel = flat(op.operands[1], [[0, 1], [2], [3], [4]])
    sums = linalg.depthwise_conv_3d_ncdhw_cdhw(volumes, kernel, outs=[into], **attributes)
    whole = sums if bias is None else with_bias(sums, bias, 1)
    order = [0, 2, 1, 3, 4]
    room = tensor.empty([shape[d] for d in order], volumes.type.element_type)
    merged = flat(linalg.transpose(whole, outs=[room], permutation=order).results[0], [[0, 1], [2], [3], [4]])
    return unflat(merged, SPLIT, list(op.results[0].type.shape))
