"""What follows a convolution channel by channel, as a kernel and a bias of its own.

    y[n, f, h, w] = s[f] * (b[f] + conv(x, k)) + t[f]   ->   (t[f] + s[f] b[f]) + conv(x, k[f, ..] * s[f])

All of it is known where the text holds numbers: kernels that are arguments are left alone, they would be scaled in
every call. A body is read as an affine map of its first element, whose factors are computed in float64.
"""

from collections.abc import Callable

import numpy as np
from mlir import ir
from mlir.dialects import arith, linalg, tensor
from mlir.rewrite import PatternRewriter

from autotune.compiler.ir.nests import dimensions, element_type, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker
from autotune.contrib.rules.bodies import is_used_once, is_whole, known_number, number_of
from autotune.core.payload import Array

KERNEL_CHANNELS = {  # dimension of the kernel, and of the result, that a channel is
    "linalg.conv_2d_nchw_fchw": (0, 1),
    "linalg.conv_2d_nhwc_hwcf": (3, 3),
    "linalg.depthwise_conv_2d_nchw_chw": (0, 1),
    "linalg.depthwise_conv_2d_nhwc_hwc": (2, 3),
}
MOST_ELEMENTS = 1 << 26  # of a kernel
NUMBERS = {"f32": np.float32, "f64": np.float64}
Pair = tuple[Array, Array]  # factor of the element, and what is added to it, by channel
OF_NUMBERS: dict[str, Callable[[Array], Array]] = {
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda value: 1.0 / np.sqrt(value),
    "arith.extf": lambda value: value,
    "arith.truncf": lambda value: value,
}


def constant_array(value: ir.Value) -> Array | None:
    """Numbers of a constant tensor or scalar, in float64; `None` where it is none."""
    made_by = maker(value)
    if (number := known_number(value)) is not None:
        return np.full(getattr(value.type, "shape", ()), number)
    if made_by is None or made_by.name != "arith.constant":
        return None
    attribute = made_by.attributes["value"]
    if (
        not isinstance(attribute, ir.DenseFPElementsAttr)
        or element_type(value) not in NUMBERS
        or len(attribute) > MOST_ELEMENTS
    ):
        return None
    return np.array(attribute).astype(np.float64).reshape(value.type.shape)


def bias_of(conv: ir.Operation, channel: int) -> Array | None:
    """What a convolution starts from, a number a channel; `None` where that is not known."""
    start = conv.operands[2]
    count = conv.results[0].type.shape[channel]
    if (number := known_number(start)) is not None:
        return np.full(count, number)
    made_by = maker(start)
    if made_by is None or made_by.name not in ("linalg.broadcast", "linalg.generic") or not moves_elements(made_by):
        return None
    read, written = map(dimensions, indexing_maps(made_by))
    return constant_array(made_by.operands[0]) if read == [written[channel]] else None


def affine_of(op: ir.Operation, conv: ir.Operation) -> Pair | None:
    """Factor and shift of every channel, where that is what an element-wise op makes of a convolution's result."""
    if op.name != "linalg.generic" or len(op.results) != 1 or op.results[0].type != conv.results[0].type:
        return None
    channel = KERNEL_CHANNELS[conv.name][1]
    count = conv.results[0].type.shape[channel]
    zero, one = np.zeros(count), np.ones(count)
    known: dict[ir.Value, Pair] = {}
    block, maps = op.regions[0].blocks[0], indexing_maps(op)
    for number, value in enumerate(list(op.operands)[:-1]):
        if value == conv.results[0]:
            if not is_whole(op, number):
                return None
            known[block.arguments[number]] = (one, zero)
            continue
        numbers = constant_array(value)
        if numbers is None or (dimensions(maps[number]) != [channel] and numbers.size != 1):
            return None
        known[block.arguments[number]] = (zero, zero + numbers.reshape(-1))
    *body, end = (inner.operation for inner in block.operations)
    for inner in body:
        found = step(inner, known, zero)
        if found is None:
            return None
        known[inner.results[0]] = found
    return pair_of(end.operands[0], known, zero)


def pair_of(value: ir.Value, known: dict[ir.Value, Pair], zero: Array) -> Pair | None:
    """What is known of a value of a body: also constants from outside."""
    if value in known:
        return known[value]
    number = known_number(value)
    return (zero, zero + number) if number is not None else None


def step(op: ir.Operation, known: dict[ir.Value, Pair], zero: Array) -> Pair | None:
    """Factor and shift after one operation of a body; `None` where it is not affine."""
    if op.name == "arith.constant":
        number = number_of(op.attributes["value"])
        return (zero, zero + number) if number is not None else None
    pairs = [pair_of(value, known, zero) for value in op.operands]
    given = [pair for pair in pairs if pair is not None]
    if not given or len(given) != len(pairs):
        return None
    if op.name in OF_NUMBERS and not given[0][0].any():
        return zero, OF_NUMBERS[op.name](given[0][1])
    return combine(op.name, given[0], given[-1])


def combine(name: str, first: Pair, second: Pair) -> Pair | None:
    """Factor and shift of one operation on two values; `None` where it is not affine."""
    (s, t), (u, v) = first, second
    if name == "arith.addf":
        return s + u, t + v
    if name == "arith.subf":
        return s - u, t - v
    if name == "arith.mulf" and not (s.any() and u.any()):
        return s * v + u * t, t * v
    return (s / v, t / v) if name == "arith.divf" and not u.any() else None


def folds_into(op: ir.Operation) -> ir.Value | None:
    """What a convolution of constants gives that an element-wise op can be folded into, if nothing else reads it."""
    made = [
        made_by for value in op.operands if (made_by := maker(value)) is not None and made_by.name in KERNEL_CHANNELS
    ]
    if len(made) != 1 or element_type(made[0].results[0]) not in NUMBERS or not is_used_once(made[0]):
        return None
    (conv,) = made
    if constant_array(conv.operands[1]) is None or bias_of(conv, KERNEL_CHANNELS[conv.name][1]) is None:
        return None
    with np.errstate(all="ignore"):
        found = affine_of(op, conv)
    return conv.results[0] if found is not None and all(bool(np.isfinite(e).all()) for e in found) else None


def write_folded(rewriter: PatternRewriter, op: ir.Operation, value: ir.Value) -> ir.Operation:
    """The convolution with what follows it in its kernel and its bias."""
    conv = value.owner.operation
    axis, channel = KERNEL_CHANNELS[conv.name]
    found, kernel, bias = affine_of(op, conv), constant_array(conv.operands[1]), bias_of(conv, channel)
    if found is None or kernel is None or bias is None:
        raise RuntimeError("what is folded must have matched before")
    scale, shift = found
    along = [1] * kernel.ndim
    along[axis] = -1
    kind = conv.results[0].type
    others = [d for d in range(len(kind.shape)) if d != channel]
    with rewriter.ip, ir.Location.unknown():
        scaled = dense(kernel * scale.reshape(along), conv.operands[1].type)
        start = dense(shift + scale * bias, ir.RankedTensorType.get([kind.shape[channel]], kind.element_type))
        begun = linalg.broadcast(start, outs=[tensor.empty(list(kind.shape), kind.element_type)], dimensions=others)
        copy = conv.clone(rewriter.ip).operation
    copy.operands[1], copy.operands[2] = scaled, begun.operation.results[0]
    return copy


def dense(array: Array, kind: ir.RankedTensorType) -> ir.Value:
    """A constant tensor."""
    held = np.ascontiguousarray(array, dtype=NUMBERS[str(kind.element_type)])
    return arith.constant(kind, ir.DenseElementsAttr.get(held))
