"""Depthwise convolutions and pools in NCHW as element-wise operations that read every tap of a window.

    y[n, c, h, w] = max over i, j of x[n, c, 2 h + i, 2 w + j]
      ->   y[n, c, h, w] = max(x[n, c, 2 h, 2 w], x[n, c, 2 h, 2 w + 1], ...)

Padding is not materialized. Rows of y whose windows leave x are separate operations; columns outside of a row are read
wrapped around and masked by a select, for long rows only in pieces at both ends. A large window is reduced along
columns first, then along rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.nests import dimensions
from autotune.compiler.ir.values import fill_of, is_constant, maker
from autotune.compiler.normalise.convolution.along_rows import LANES
from autotune.compiler.normalise.convolution.window_sums import holds_f32, multiply_add
from autotune.compiler.normalise.convolution.windows import WindowAxis, bias_of, steps_of
from autotune.compiler.normalise.emit import dims, generic
from autotune.compiler.normalise.shapes.slices import amounts

DEPTHWISE = "linalg.depthwise_conv_2d_nchw_chw"
MAXIMUM, SUM = "linalg.pooling_nchw_max", "linalg.pooling_nchw_sum"
POOLS = (MAXIMUM, SUM)
LEAST_COLUMNS = 8  # of a result; shorter rows do not fill vectors
MOST_COLUMNS = 256  # of a piece of a result whose windows leave the input
MOST_TAPS = 12  # of a window that is reduced by one operation
MOST_SIDE = 25
MOST_PIECES = 9
MOST_ROWS = 5  # groups of rows with the same taps inside


@dataclass(frozen=True)
class Planes:
    """Depthwise convolution or pool over planes.

    Attributes:
        x: Input, ``(n, c, h, w)``, before padding.
        border: Padding value.
        start: Initial value of the result, ``(n, c, h, w)``.
        kernel: Kernel, ``(c, i, j)``; `None` for a pool.
        is_maximum: Whether the pool is a maximum; else a sum.
        down: Windows along dimension h.
        across: Windows along dimension w.
    """

    x: ir.Value
    border: ir.Value | None
    start: ir.Value
    kernel: ir.Value | None
    is_maximum: bool
    down: WindowAxis
    across: WindowAxis

    def write(self) -> ir.Value:
        """Build the operations; return the result."""
        lead = list(self.x.type.shape[:2])
        whole = tensor.empty([*lead, self.down.windows, self.across.windows], self.x.type.element_type)
        pieces = list(product(self.down.kinds(), self.across.strips(MOST_COLUMNS, LANES)))
        for (first, count, taps), (begin, columns) in pieces:
            offsets, sizes = [0, 0, first, begin], [*lead, count, columns]
            part = cut(whole, offsets, sizes) if len(pieces) > 1 else whole
            strip = replace(self, across=self.across.part(begin, columns))
            part = strip.write_rows(offsets, taps, part)
            whole = part if len(pieces) == 1 else tensor.insert_slice(part, whole, [], [], [], offsets, sizes, [1] * 4)
        return whole

    def write_rows(self, offsets: Sequence[int], taps: tuple[int, ...], into: ir.Value) -> ir.Value:
        """Build a piece of the result at some offsets, whose windows have the given vertical taps inside the input."""
        first = offsets[2]
        window = [(i, j) for i in range(self.down.side) for j in range(self.across.side)]
        positions = [(i, j) for i, j in window if i in taps and self.across.reaches(j)]
        fill, bias = fill_of(self.start), bias_of(self.start)
        maps = [self.tap_map(first, i, j) for i, j in positions]
        inputs = [read_by(self.x, amap, into.type.shape) for amap in maps]
        if self.kernel is not None:
            channel = dims(4)[1]
            inputs += [self.kernel] * len(positions)
            maps += [ir.AffineMap.get(4, 0, [channel, *map(ir.AffineConstantExpr.get, tap)]) for tap in positions]
        if bias is not None:
            inputs.append(bias)
            maps.append(ir.AffineMap.get(4, 0, dims(2)[1:]))
        elif fill is None:
            _, _, h, w = into.type.shape
            inputs.append(cut(self.start, offsets, [*into.type.shape[:2], h, w]))
            maps.append(ir.AffineMap.get_identity(4))

        def write(*elements: ir.Value) -> ir.Value:
            *operands, _ = elements
            total = operands.pop() if fill is None else fill.operands[0]
            outside = len(positions) < len(window)  # padding of a sum adds zeros
            loaded = dict(
                zip(positions, (self.masked(x, j) for x, (_, j) in zip(operands, positions, strict=False)), strict=True)
            )
            if self.kernel is not None:
                for x, weight in zip(loaded.values(), operands[len(positions) :], strict=True):
                    total = multiply_add(x, weight, total)
                return total
            values = [*loaded.values(), *([self.border] if outside and self.is_maximum else [])]
            if fill is not None and values and is_neutral(total, self.is_maximum):
                total, *values = values
            return maximum([total, *values]) if self.is_maximum else reduce(arith.addf, values, total)

        return generic(inputs, into, [*maps, ir.AffineMap.get_identity(4)], ["parallel"] * 4, write)

    def tap_map(self, first: int, i: int, j: int) -> ir.AffineMap:
        """Return the map from (n, c, h, w) to tap (i, j) of the window, for rows of the result from `first` on."""
        n, c, h, w = dims(4)
        row = h * self.down.stride + (self.down.stride * first + self.down.first(i))
        column = w * self.across.stride + self.across.first(j)
        if self.leaves(j):
            column = ir.AffineExpr.get_mod(
                column + self.across.size * (1 + max(self.across.before, 0)), self.across.size
            )
        return ir.AffineMap.get(4, 0, [n, c, row, column])

    def leaves(self, j: int) -> bool:
        """Return whether horizontal tap j of some window is outside of the row."""
        return any(j not in self.across.inside(window) for window in (0, self.across.windows - 1))

    def masked(self, x: ir.Value, j: int) -> ir.Value:
        """Select an element if horizontal tap j is inside of the row, else the padding value."""
        if not self.leaves(j):
            return x
        line, index_type = self.across, ir.IndexType.get()
        inside = [window for window in range(line.windows) if j in line.inside(window)]
        w = linalg.IndexOp(3).result
        bounds = [(arith.CmpIPredicate.sge, inside[0]), (arith.CmpIPredicate.sle, inside[-1])]
        first, last = (arith.cmpi(how, w, arith.constant(index_type, at)) for how, at in bounds)
        return arith.select(arith.andi(first, last), x, self.border)


def planes_of(op: ir.Operation) -> Planes | None:
    """Match a depthwise convolution or pool that can be computed in NCHW; return `None` if it does not match."""
    if op.name not in (DEPTHWISE, *POOLS) or not all(map(holds_f32, op.operands)):
        return None
    x, kernel, start = op.operands
    pad, before, border = maker(x), [0, 0], None
    if pad is not None and is_cheaper_inside(pad):
        before = amounts(pad)[0][2:]
        x, border = pad.operands[0], pad.regions[0].blocks[0].operations[0].operation.operands[0]
    sides = kernel.type.shape[-2:]
    steps = (steps_of(op, name) for name in ("strides", "dilations"))
    sizes = (x.type.shape[2:], op.results[0].type.shape[2:], sides, *steps, before)
    axes = [WindowAxis(*each) for each in zip(*sizes, strict=True)]
    if axes[1].windows < LEAST_COLUMNS or max(sides) > MOST_SIDE:
        return None
    masked = op.name == MAXIMUM or border is None or is_neutral(border, maximum=False)
    if border is not None and not (masked and is_cut_well(*axes)):
        x, border = op.operands[0], None
        axes = [replace(line, size=x.type.shape[2 + d], before=0) for d, line in enumerate(axes)]
    return Planes(x, border, start, kernel if op.name == DEPTHWISE else None, op.name == MAXIMUM, *axes)


def is_cheaper_inside(pad: ir.Operation) -> bool:
    """Return whether a constant pad would copy its source, as no structured operation can write inside the border."""
    if pad.name != "tensor.pad" or len(pad.operands) != 1:
        return False
    body = [inner.operation for inner in pad.regions[0].blocks[0].operations]
    low, high = amounts(pad)
    is_constant_pad = len(body) == 1 and is_constant(body[0].operands[0]) and not any((*low[:2], *high[:2]))
    source = maker(pad.operands[0])
    return is_constant_pad and (source is None or not source.name.startswith("linalg."))


def is_cut_well(down: WindowAxis, across: WindowAxis) -> bool:
    """Return whether the result divides into few pieces, and pieces whose windows leave the input are short."""
    rows, strips = len(list(down.kinds())), across.strips(MOST_COLUMNS, LANES)
    short = all(count <= MOST_COLUMNS or not across.part(begin, count).leaves for begin, count in strips)
    return rows <= MOST_ROWS and rows * len(strips) <= MOST_PIECES and short


def write_planes(op: ir.Operation) -> ir.Value | None:
    """Build a depthwise convolution or pool as element-wise operations; `None` if unsupported or not worthwhile."""
    planes = planes_of(op)
    if planes is None:
        return None
    taps, start = planes.down.side * planes.across.side, fill_of(planes.start)
    if taps <= (MOST_TAPS if planes.kernel is None else MOST_SIDE):
        return planes.write()
    if planes.kernel is not None or start is None or not is_neutral(start.operands[0], planes.is_maximum):
        return None
    rows = replace(planes, across=planes.across.whole()).write()
    down = replace(planes.down, size=planes.down.windows).whole()
    return replace(planes, x=rows, down=down).write()


def maximum(values: Sequence[ir.Value]) -> ir.Value:
    """Build the maximum of scalars; NaN if one of them is, which is tested for two at a time."""
    if len(values) == 1:
        return values[0]
    flags = ir.Attribute.parse("#arith.fastmath<nnan,nsz>")
    largest = reduce(lambda a, b: arith.maximumf(a, b, fastmath=flags), values)
    pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
    is_nan = reduce(arith.ori, [arith.cmpf(arith.CmpFPredicate.UNO, pair[0], pair[-1]) for pair in pairs])
    return arith.select(is_nan, arith.constant(values[0].type, float("nan")), largest)


def is_neutral(value: ir.Value, maximum: bool) -> bool:
    """Return whether a value is the neutral constant of a maximum or sum."""
    producer = maker(value)
    if producer is None or producer.name != "arith.constant":
        return False
    number = float(ir.FloatAttr(producer.attributes["value"]).value)
    return number == (float("-inf") if maximum else 0.0)


def cut(value: ir.Value, offsets: Sequence[int], sizes: Sequence[int]) -> ir.Value:
    """Build a slice of a tensor; the tensor itself if the slice is all of it."""
    if list(value.type.shape) == list(sizes):
        return value
    slice_type = ir.RankedTensorType.get(sizes, value.type.element_type)
    return tensor.extract_slice(slice_type, value, [], [], [], offsets, sizes, [1] * len(sizes))


def read_by(value: ir.Value, amap: ir.AffineMap, sizes: Sequence[int]) -> ir.Value:
    """Slice a tensor to the trip count of a loop in dimensions indexed by that loop alone, as linalg requires."""
    loop_dims = dimensions(amap)
    shape = [size if d is None else sizes[d] for d, size in zip(loop_dims, value.type.shape, strict=True)]
    return cut(value, [0] * len(shape), shape)
