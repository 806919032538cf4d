"""Convolutions and pooling with channels last: what a vector reads lies side by side, a convolution is a product.

    y[n, f, h, w] += x[n, c, s h + i, s w + j] * k[f, c, i, j]
      ->   X = x, channels last;  P[(n h w), (i j c)] = X[n, s h + i, s w + j, c];  Y[(n h w), f] += P * K[(i j c), f]

Element-wise ops between them follow, as do pads: what is turned stays turned, up to where somebody wants it otherwise.
"""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.module import run_passes
from autotune.compiler.nests import dimensions, indexing_maps
from autotune.compiler.normalise.emit import dims, filled, flat, generic, permuted, unflat
from autotune.compiler.normalise.windows import conv_as_product, window_of
from autotune.compiler.values import fill_of, maker

LAST, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
ROWS = ((0, 1, 2), (3,))  # of a tensor with channels last: all places are rows
PLAIN = ("arith.", "math.", "linalg.yield")
POOLS = {"linalg.pooling_nchw_max": linalg.pooling_nhwc_max, "linalg.pooling_nchw_sum": linalg.pooling_nhwc_sum}
CONV, DEPTHWISE = "linalg.conv_2d_nchw_fchw", "linalg.depthwise_conv_2d_nchw_chw"


def turn_channels_last(module: ir.Module) -> None:
    """Turn convolutions and pools of a module, and what lies between them, in place."""
    blocks = [op.regions[0].blocks[0] for op in module.body.operations if op.operation.name == "func.func"]
    found = [op for block in blocks for op in block.operations if op.operation.name in (CONV, DEPTHWISE, *POOLS)]
    if not found:
        return
    for block in blocks:
        turned = Turned()
        for op in list(block.operations):
            turned.take(op.operation)
    run_passes(module, "builtin.module(canonicalize,cse)")


@dataclass
class Turned:
    """Values of a block that there are with channels last.

    Attributes:
        last: The value with channels last, for every value that was made of one.
    """

    last: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def take(self, op: ir.Operation) -> None:
        """Turn an op, if it is one that can be and that should."""
        with ir.InsertionPoint(op), op.location:
            result = self.turn(op)
            if result is None:
                return
            back = permuted(result, BACK)
        self.last[back] = result
        op.results[0].replace_all_uses_with(back)
        op.erase()

    def turn(self, op: ir.Operation) -> ir.Value | None:
        """An op's result with channels last; `None` where the op stays."""
        if op.name in (CONV, DEPTHWISE, *POOLS):
            return self.turn_windows(op)
        if op.name == "tensor.pad" and op.operands[0] in self.last:
            return self.turn_pad(op)
        if is_elementwise(op) and any(value in self.last for value in op.operands):
            return self.turn_elementwise(op)
        return None

    def of(self, value: ir.Value) -> ir.Value:
        """A value with channels last."""
        if value in self.last:
            return self.last[value]
        fill = fill_of(value)
        if fill is not None:
            shape = [value.type.shape[d] for d in LAST]
            return filled(shape, value.type.element_type, fill.operands[0])
        return permuted(value, LAST)

    def turn_windows(self, op: ir.Operation) -> ir.Value | None:
        """A convolution, or a pool."""
        window, x = window_of(op), self.of(op.operands[0])
        if op.name == CONV:
            shape = [op.results[0].type.shape[d] for d in LAST]
            product = conv_as_product(x, op.operands[1], window, shape)
            return unflat(self.add_start(product, op.operands[2]), ROWS, shape)
        attributes = {"strides": window.attribute(window.strides), "dilations": window.attribute(window.dilations)}
        if op.name == DEPTHWISE:
            zeros = self.of(op.operands[2])
            kernel = permuted(op.operands[1], (1, 2, 0))
            return linalg.depthwise_conv_2d_nhwc_hwc(x, kernel, outs=[zeros], **attributes)
        return POOLS[op.name](x, op.operands[1], outs=[self.of(op.operands[2])], **attributes)

    def add_start(self, product: ir.Value, start: ir.Value) -> ir.Value:
        """A product of rows, with what its convolution starts from; importers start from the bias."""
        fill = fill_of(start)
        if fill is not None and is_zero(fill.operands[0]):
            return product
        kind, both = product.type, ir.AffineMap.get_identity(2)
        by_channel = bias_of(start)
        other = by_channel if by_channel is not None else flat(self.of(start), ROWS)
        layout = ir.AffineMap.get(2, 0, [dims(2)[1]]) if by_channel is not None else both
        into = tensor.empty(kind.shape, kind.element_type)
        maps = [both, layout, both]
        return generic([product, other], into, maps, ["parallel"] * 2, lambda a, b, _: arith.addf(a, b))

    def turn_pad(self, op: ir.Operation) -> ir.Value | None:
        """A pad with one constant number, by constant amounts."""
        low, high = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{side}"])) for side in ("low", "high"))
        body = [inner.operation for inner in op.regions[0].blocks[0].operations]
        if len(op.operands) != 1 or len(body) != 1:
            return None
        value, shape = body[0].operands[0], op.results[0].type.shape
        kind = ir.RankedTensorType.get([shape[d] for d in LAST], op.results[0].type.element_type)
        padded = tensor.PadOp(kind, self.of(op.operands[0]), [], [], [low[d] for d in LAST], [high[d] for d in LAST])
        places = [ir.IndexType.get()] * len(shape)
        with ir.InsertionPoint(padded.regions[0].blocks.append(*places, arg_locs=[op.location] * len(shape))):
            tensor.yield_(value)
        return padded.result

    def turn_elementwise(self, op: ir.Operation) -> ir.Value | None:
        """An element-wise op, as one over rows of channels."""
        maps = indexing_maps(op)
        layouts = [row_map(amap, value) for amap, value in zip(maps, op.operands, strict=True)]
        if any(layout is None for layout in layouts):
            return None
        shape = [op.results[0].type.shape[d] for d in LAST]
        *values, _ = op.operands
        inputs = [flat(self.of(v), ROWS) if is_whole(amap) else v for v, amap in zip(values, maps[:-1], strict=True)]
        into = tensor.empty([shape[0] * shape[1] * shape[2], shape[3]], op.results[0].type.element_type)
        result = generic(inputs, into, [layout for layout in layouts if layout], ["parallel"] * 2, Body(op).copy)
        return unflat(result, ROWS, shape)


@dataclass(frozen=True)
class Body:
    """The body of an op, to be written again."""

    op: ir.Operation

    def copy(self, *elements: ir.Value) -> ir.Value:
        """The scalar ops of the body on other elements; gives what it yields."""
        block = self.op.regions[0].blocks[0]
        known = dict(zip(block.arguments, elements, strict=True))
        *ops, end = (inner.operation for inner in block.operations)
        for inner in ops:
            clone = inner.clone().operation
            for number, value in enumerate(inner.operands):
                clone.operands[number] = known.get(value, value)
            known |= dict(zip(inner.results, clone.results, strict=True))
        return known.get(end.operands[0], end.operands[0])


def is_elementwise(op: ir.Operation) -> bool:
    """Tell whether an op computes each element of a tensor of four dimensions by plain arithmetic."""
    if op.name != "linalg.generic" or len(op.results) != 1 or len(op.results[0].type.shape) != len(LAST):
        return False
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return all(name.startswith(PLAIN) for name in names) and is_whole(indexing_maps(op)[-1])


def is_whole(amap: ir.AffineMap) -> bool:
    """Tell whether an operand is read at the place that is written."""
    return bool(amap == ir.AffineMap.get_identity(len(LAST)))


def row_map(amap: ir.AffineMap, value: ir.Value) -> ir.AffineMap | None:
    """How an operand of an op over (n, c, h, w) is read by one over (rows, c); `None` where it depends on the place."""
    row, channel = dims(2)
    if amap.n_dims != len(LAST):
        return None
    if is_whole(amap):
        return ir.AffineMap.get(2, 0, [row, channel])
    places: list[ir.AffineExpr] = []
    for d, size in zip(dimensions(amap), getattr(value.type, "shape", ()), strict=True):
        if d != 1 and size != 1:
            return None
        places.append(channel if d == 1 else ir.AffineConstantExpr.get(0))
    return ir.AffineMap.get(2, 0, places)


def bias_of(value: ir.Value) -> ir.Value | None:
    """The vector by channel that a tensor repeats everywhere; `None` if it is none."""
    made_by = maker(value)
    if made_by is None or made_by.name not in ("linalg.broadcast", "linalg.generic") or len(made_by.operands) != 2:
        return None
    body = made_by.regions[0].blocks[0].operations
    read, written = map(dimensions, indexing_maps(made_by))
    moves = len(body) == 1 and body[0].operation.operands[0] == made_by.regions[0].blocks[0].arguments[0]
    return made_by.operands[0] if moves and written == [0, 1, 2, 3] and read == [1] else None


def is_zero(value: ir.Value) -> bool:
    """Tell whether a value is the constant 0."""
    made_by = maker(value)
    if made_by is None or made_by.name != "arith.constant":
        return False
    return float(ir.FloatAttr(made_by.attributes["value"]).value) == 0
