"""Folding of a channel-wise affine operation after a convolution into its kernel and bias, such as batch norm.

    y[n, f, h, w] = s[f] * (b[f] + conv(x, k)) + t[f]   ->   (t[f] + s[f] b[f]) + conv(x, k[f, ..] * s[f])

Only constant kernels are folded; those that are arguments would be scaled in every call. A body is interpreted as an
affine function of the convolution's element, with coefficients in float64.
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

KERNEL_CHANNELS = {  # channel dimension of the kernel, and of the result
    "linalg.conv_2d_nchw_fchw": (0, 1),
    "linalg.conv_2d_nhwc_hwcf": (3, 3),
    "linalg.depthwise_conv_2d_nchw_chw": (0, 1),
    "linalg.depthwise_conv_2d_nhwc_hwc": (2, 3),
}
MOST_ELEMENTS = 1 << 26  # of a kernel
NUMBERS = {"f32": np.float32, "f64": np.float64}
Pair = tuple[Array, Array]  # scale and shift of the element, by channel
OF_NUMBERS: dict[str, Callable[[Array], Array]] = {
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda value: 1.0 / np.sqrt(value),
    "arith.extf": lambda value: value,
    "arith.truncf": lambda value: value,
}


def constant_array(value: ir.Value) -> Array | None:
    """Return the elements of a constant tensor or scalar in float64; `None` if it is not constant."""
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
    """Return the initial value of a convolution's accumulator by channel; `None` if it is not constant."""
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
    """Return scale and shift of every channel if an elementwise operation is affine in a convolution's result."""
    if op.name != "linalg.generic" or len(op.results) != 1 or op.results[0].type != conv.results[0].type:
        return None
    channel = KERNEL_CHANNELS[conv.name][1]
    count = conv.results[0].type.shape[channel]
    zero, unit = np.zeros(count), np.ones(count)
    coefficients: dict[ir.Value, Pair] = {}
    block, maps = op.regions[0].blocks[0], indexing_maps(op)
    for number, value in enumerate(list(op.operands)[:-1]):
        if value == conv.results[0]:
            if not is_whole(op, number):
                return None
            coefficients[block.arguments[number]] = (unit, zero)
            continue
        numbers = constant_array(value)
        if numbers is None or (dimensions(maps[number]) != [channel] and numbers.size != 1):
            return None
        coefficients[block.arguments[number]] = (zero, zero + numbers.reshape(-1))
    *body, end = (inner.operation for inner in block.operations)
    for inner in body:
        result = step(inner, coefficients, zero)
        if result is None:
            return None
        coefficients[inner.results[0]] = result
    return pair_of(end.operands[0], coefficients, zero)


def pair_of(value: ir.Value, known: dict[ir.Value, Pair], zero: Array) -> Pair | None:
    """Return scale and shift of a value in a body, or of a constant from outside; `None` if unknown."""
    if value in known:
        return known[value]
    number = known_number(value)
    return (zero, zero + number) if number is not None else None


def step(op: ir.Operation, known: dict[ir.Value, Pair], zero: Array) -> Pair | None:
    """Return scale and shift of an operation's result in a body; `None` if it is not affine."""
    if op.name == "arith.constant":
        number = number_of(op.attributes["value"])
        return (zero, zero + number) if number is not None else None
    pairs = [pair_of(value, known, zero) for value in op.operands]
    operands = [pair for pair in pairs if pair is not None]
    if not operands or len(operands) != len(pairs):
        return None
    if op.name in OF_NUMBERS and not operands[0][0].any():
        return zero, OF_NUMBERS[op.name](operands[0][1])
    return combine(op.name, operands[0], operands[-1])


def combine(name: str, first: Pair, second: Pair) -> Pair | None:
    """Return scale and shift of a binary operation; `None` if it is not affine."""
    (s, t), (u, v) = first, second
    if name == "arith.addf":
        return s + u, t + v
    if name == "arith.subf":
        return s - u, t - v
    if name == "arith.mulf" and not (s.any() and u.any()):
        return s * v + u * t, t * v
    return (s / v, t / v) if name == "arith.divf" and not u.any() else None


def folds_into(op: ir.Operation) -> ir.Value | None:
    """Return the result of the convolution that an elementwise operation can be folded into; `None` if there is none.

    The convolution must have a constant kernel and no other user.
    """
    made = [
        made_by for value in op.operands if (made_by := maker(value)) is not None and made_by.name in KERNEL_CHANNELS
    ]
    if len(made) != 1 or element_type(made[0].results[0]) not in NUMBERS or not is_used_once(made[0]):
        return None
    (conv,) = made
    if constant_array(conv.operands[1]) is None or bias_of(conv, KERNEL_CHANNELS[conv.name][1]) is None:
        return None
    with np.errstate(all="ignore"):
        folded = affine_of(op, conv)
    return conv.results[0] if folded is not None and all(bool(np.isfinite(e).all()) for e in folded) else None


def write_folded(rewriter: PatternRewriter, op: ir.Operation, value: ir.Value) -> ir.Operation:
    """Create the convolution with scaled kernel and new bias."""
    conv = value.owner.operation
    axis, channel = KERNEL_CHANNELS[conv.name]
    coefficients, kernel, bias = affine_of(op, conv), constant_array(conv.operands[1]), bias_of(conv, channel)
    if coefficients is None or kernel is None or bias is None:
        raise RuntimeError("what is folded must have matched before")
    scale, shift = coefficients
    channel_shape = [1] * kernel.ndim
    channel_shape[axis] = -1
    kind = conv.results[0].type
    others = [d for d in range(len(kind.shape)) if d != channel]
    with rewriter.ip, ir.Location.unknown():
        scaled = dense(kernel * scale.reshape(channel_shape), conv.operands[1].type)
        start = dense(shift + scale * bias, ir.RankedTensorType.get([kind.shape[channel]], kind.element_type))
        init = linalg.broadcast(start, outs=[tensor.empty(list(kind.shape), kind.element_type)], dimensions=others)
        copy = conv.clone(rewriter.ip).operation
    copy.operands[1], copy.operands[2] = scaled, init.operation.results[0]
    return copy


def dense(array: Array, tensor_type: ir.RankedTensorType) -> ir.Value:
    """Create a constant tensor."""
    contiguous = np.ascontiguousarray(array, dtype=NUMBERS[str(tensor_type.element_type)])
    return arith.constant(tensor_type, ir.DenseElementsAttr.get(contiguous))
