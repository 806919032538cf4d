"""Depthwise convolutions over volumes that importers write over planes: read where the volumes lie, not copied apart.

    P[n d, c, e] = x[n, c, s d + t e]  (a plane);  y[n d, c] += K[c, e] * P[n d, c, e]
      ->   y[n, d, c] += K[c, e] * x[n, c, s d + t e]

Each plane was copied once for each element of the kernel that reads it: for a kernel of 5x5x5, five times the input.
"""

from dataclasses import dataclass
from itertools import pairwise

from mlir import ir

from autotune.compiler.ir.module import CLEAN, every_op, replace_ops
from autotune.compiler.ir.values import maker, maker_named, permutation_of, reassociation, static_slice
from autotune.compiler.normalise.convolution.grouped import read_at, sum_products
from autotune.compiler.normalise.convolution.window_sums import holds_f32
from autotune.compiler.normalise.convolution.windows import steps_of
from autotune.compiler.normalise.emit import dims, flat, unflat

CONVOLUTION = "linalg.conv_2d_ngchw_gfchw"
ORDER, MERGED = [0, 3, 1, 2, 4, 5], [[0, 1], [2], [3], [4], [5]]  # planes (n, c, e, d, h, w) -> (n d, c, e, h, w)
APART = [[0], [1], [2, 3], [4], [5]]  # a plane of each position, (n, c, 1, d, h, w)
DEPTH, TAPS = 2, 2  # dimensions of volumes, and of planes


@dataclass(frozen=True)
class PlanesOfVolumes:
    """Planes of volumes, as a convolution reads them.

    Attributes:
        volumes: The volumes, ``(n, c, depth, h, w)``.
        positions: Positions along the depth.
        stride: Planes between a position and the next.
        begins: Plane of the first position, for each element of the kernel.
    """

    volumes: ir.Value
    positions: int
    stride: int
    begins: tuple[int, ...]

    @property
    def dilation(self) -> int:
        """Planes between neighbours in the kernel."""
        return self.begins[1] - self.begins[0]


def read_volumes(module: ir.Module) -> None:
    """Let depthwise convolutions read volumes instead of their planes, in place."""
    found = {op: planes for op in every_op(module) if (planes := planes_of(op)) is not None}
    replace_ops(module, found, lambda op: sum_volumes(op, found[op]), passes=CLEAN)


def planes_of(op: ir.Operation) -> PlanesOfVolumes | None:
    """The planes that a convolution reads, neighbours in a row side by side; `None` of any other op."""
    concat = concat_of(op)
    cuts = [cut_of(plane) for plane in concat.operands] if concat is not None else []
    found = [cut for cut in cuts if cut is not None]
    parts = [static_slice(cut) for cut in found]
    alike = {(cut.operands[0], *sizes, *strides) for cut, (_, sizes, strides) in zip(found, parts, strict=True)}
    if len(found) < len(cuts) or len(alike) != 1:
        return None
    volumes, (_, sizes, strides) = found[0].operands[0], parts[0]
    begins = tuple(offsets.pop(DEPTH) for offsets, _, _ in parts)
    positions, stride, whole = sizes.pop(DEPTH), strides.pop(DEPTH), list(volumes.type.shape)
    del whole[DEPTH]
    evenly = {after - before for before, after in pairwise(begins)}
    if sizes != whole or set(strides) != {1} or any(any(offsets) for offsets, _, _ in parts) or len(evenly) != 1:
        return None
    return PlanesOfVolumes(volumes, positions, stride, begins)


def concat_of(op: ir.Operation) -> ir.Operation | None:
    """What joins the planes that a convolution reads, neighbours in a row side by side; `None` of any other op."""
    if op.name != CONVOLUTION or not all(map(holds_f32, op.operands)) or steps_of(op, "strides")[1] != 1:
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
    """The slice of volumes that a plane of each position is; `None` of anything else."""
    apart = maker_named(plane, "tensor.expand_shape")
    cut = maker_named(apart.operands[0], "tensor.extract_slice") if apart and reassociation(apart) == APART else None
    return cut if cut and len(cut.operands) == 1 else None


def sum_volumes(op: ir.Operation, planes: PlanesOfVolumes) -> ir.Value:
    """The sums of a convolution, of the volumes that its planes are of."""
    kernel, start = op.operands[1], op.operands[2]
    shape = [planes.volumes.type.shape[0], planes.positions, *start.type.shape[1:]]
    n, d, g, f, h, w, e, i, j = dims(9)
    rows, columns = read_at(op, (h, w), (i, j))
    depth = d * planes.stride + e * planes.dilation + planes.begins[0]
    indices = (n, g, depth, rows, columns), (g, f, e, i, j), (n, d, g, f, h, w)
    summed = sum_products(planes.volumes, kernel, unflat(start, MERGED, shape), indices, kernel.type.shape[2:])
    return flat(summed, MERGED)
