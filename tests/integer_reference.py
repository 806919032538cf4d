"""What a quantised ONNX model must give, bit by bit: an evaluator of our own, in NumPy's int64 and float32.

It reads the file as it is, and knows nothing of what the importer makes of it. A product of quantised tensors is a sum
of whole numbers, exact, and a scale; quantised again, it is multiplied by one factor of float32, rounded to even, and
held in range. All other ops are of float32, by ONNX's reference.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


@dataclass(frozen=True)
class Whole:
    """Whole numbers times a scale that is broadcast to them, between two limits."""

    numbers: np.ndarray
    scale: np.ndarray
    low: float = -np.inf
    high: float = np.inf

    @property
    def real(self):
        real = self.numbers.astype(np.float32) * self.scale.astype(np.float32)
        return np.clip(real, np.float32(self.low), np.float32(self.high))


@dataclass(frozen=True)
class Rows:
    """What an op makes of rows of whole numbers: in float32, and divided by a step where it is quantised."""

    over: Callable[[np.float32], np.ndarray]

    @property
    def real(self):
        return self.over(np.float32(1))


def evaluate(path, given):
    """Results of a model of a few ops of ONNX and ONNX Runtime."""
    model = onnx.load(path)
    values = {**given, **{tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}}
    version = next(opset.version for opset in model.opset_import if not opset.domain)
    for node in model.graph.node:
        inputs = [values[name] if name else None for name in node.input]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        own = OPS.get(node.op_type)
        found = own(*inputs, **attributes) if own is not None else None
        found = plain(node, inputs, version) if found is None else found
        values |= dict(zip(node.output, found if isinstance(found, tuple) else (found,), strict=False))
    return [real_of(values[output.name]) for output in model.graph.output]


def real_of(value):
    return value.real if isinstance(value, Whole | Rows) else value


def plain(node, inputs, version):
    """An op of real numbers, by ONNX's reference, in float32."""
    names = [name for name in node.input if name]
    infos = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names)]
    graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in node.output])
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)]))
    return tuple(evaluator.run(None, {n: real_of(x) for n, x in zip(node.input, inputs, strict=True) if n}))


def along(array, axis, rank):
    """One number for all, or one for each index of an axis, as it is broadcast."""
    array = np.asarray(array)
    if array.size == 1:
        return array.reshape(())
    sizes = [1] * rank
    sizes[axis] = array.size
    return array.reshape(sizes)


def dequantise(x, scale, zero=None, axis=1):
    whole = x.astype(np.int64)
    if zero is not None:
        whole = whole - along(zero, axis, x.ndim).astype(np.int64)
    return Whole(whole, along(scale, axis, x.ndim))


def held(steps, zero):
    ends = np.iinfo(zero.dtype)
    return np.clip(np.rint(steps) + zero.astype(np.float32), ends.min, ends.max).astype(zero.dtype)


def quantise(x, scale, zero=None, **_):
    zero = np.zeros((), np.uint8) if zero is None else np.asarray(zero).reshape(())
    step = np.float32(np.asarray(scale).reshape(()))
    if isinstance(x, Rows):
        return held(x.over(step), zero)
    if not isinstance(x, Whole):
        return held(x / step, zero)
    steps = x.numbers.astype(np.float32) * (x.scale / step).astype(np.float32)
    ends = [held(np.float32(end) / step, zero) if np.isfinite(end) else None for end in (x.low, x.high)]
    return np.clip(held(steps, zero), *ends) if any(end is not None for end in ends) else held(steps, zero)


def multiply(a, b):
    if not (isinstance(a, Whole) and isinstance(b, Whole)):
        return real_of(a) @ real_of(b)
    return Whole(a.numbers @ b.numbers, a.scale * b.scale)


def gemm(a, b, c=None, **attributes):
    b = Whole(b.numbers.T, b.scale.T) if attributes.get("transB") else b
    total = multiply(a, b)
    if c is None:
        return total
    return Whole(total.numbers + c.numbers, total.scale) if isinstance(c, Whole) else total.real + c


def correlate(x, w, *, kernel_shape=None, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1, outside=0, **_):
    """Sums of products over windows, int64."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=outside)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    n, c, h, wide, i, j = windows.shape
    apart = windows.reshape(n, group, c // group, h, wide, i, j)
    kernels = w.reshape(group, -1, *w.shape[1:])
    return np.einsum("ngchwij,gfcij->ngfhw", apart, kernels).reshape(n, -1, h, wide)


def convolve(x, w, b=None, **attributes):
    total = Whole(
        correlate(x.numbers, w.numbers, **attributes),
        x.scale * (w.scale.reshape(1, -1, 1, 1) if w.scale.ndim else w.scale),
    )
    if b is None:
        return total
    shift = (b.numbers if isinstance(b, Whole) else b).reshape(1, -1, 1, 1)
    return Whole(total.numbers + shift, total.scale) if isinstance(b, Whole) else total.real + shift


def relu(x):
    return Whole(x.numbers, x.scale, max(x.low, 0.0), max(x.high, 0.0)) if isinstance(x, Whole) else np.maximum(x, 0)


def clip(x, low=-np.inf, high=np.inf):
    if not isinstance(x, Whole):
        return np.clip(x, low, high)
    return Whole(x.numbers, x.scale, *np.clip([x.low, x.high], float(low), float(high)))


def average(x, **_):
    """The mean of all places, of whole numbers."""
    if not isinstance(x, Whole):
        return None
    places = np.float32(x.numbers.shape[2] * x.numbers.shape[3])
    return Whole(x.numbers.sum(axis=(2, 3), keepdims=True), np.float32(x.scale) / places)


def pool(x, **attributes):
    """The largest of each window."""
    x = x if not isinstance(x, Whole) else x.numbers
    kernel, pads = attributes["kernel_shape"], attributes.get("pads", (0, 0, 0, 0))
    strides = attributes.get("strides", (1, 1))
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=least)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))
    return windows[:, :, :: strides[0], :: strides[1]].max(axis=(4, 5))


def max_pool(x, **attributes):
    return Whole(pool(x, **attributes), x.scale) if isinstance(x, Whole) else pool(x, **attributes)


def dynamic(x):
    most, least = np.maximum(x.max(), 0), np.minimum(x.min(), 0)
    scale = np.float32((most - least) / np.float32(255))
    zero = np.clip(np.rint(-least / scale), 0, 255).astype(np.uint8)
    return quantise(x, scale, zero), scale, zero


def multiply_integers(a, b, a_zero=None, b_zero=None):
    sides = [x.astype(np.int64) - (0 if z is None else z.astype(np.int64)) for x, z in ((a, a_zero), (b, b_zero))]
    return (sides[0] @ sides[1]).astype(np.int32)


def convolve_integers(x, w, x_zero=None, w_zero=None, **attributes):
    x = x.astype(np.int64) - (0 if x_zero is None else x_zero.astype(np.int64))
    w = w.astype(np.int64) - along(0 if w_zero is None else w_zero, 0, w.ndim).astype(np.int64)
    return correlate(x, w, **attributes).astype(np.int32)


def ends(op):
    """An op of ONNX Runtime: dequantised, computed, quantised."""

    def of_two(*given):
        return quantise(op(dequantise(*given[:3]).real, dequantise(*given[3:6]).real), *given[6:])

    return of_two


def linear_convolution(*given, **attributes):
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, *bias = given
    added = [Whole(b.astype(np.int64), along(x_scale * w_scale, 0, 1)) for b in bias]
    total = convolve(dequantise(x, x_scale, x_zero), dequantise(w, w_scale, w_zero, 0), *added, **attributes)
    return quantise(total, scale, zero)


def linear_gemm(*given, **attributes):
    a, a_scale, a_zero, b, b_scale, b_zero, c, *ends_of = given
    bias = None if c is None else Whole(c.astype(np.int64), along(a_scale * b_scale, -1, 1))
    axis = 0 if attributes.get("transB") else 1
    total = gemm(dequantise(a, a_scale, a_zero), dequantise(b, b_scale, b_zero, axis), bias, **attributes)
    return quantise(total, *ends_of) if ends_of else total


def softmax(x, axis=-1):
    """Powers of whole distances from the largest, over their sum; the step is part of what they are multiplied by."""
    if not isinstance(x, Whole):
        return None
    below = x.numbers - x.numbers.max(axis=axis, keepdims=True)
    powers = np.exp(below.astype(np.float32) * x.scale.astype(np.float32))
    total = powers.sum(axis=axis, keepdims=True)
    return Rows(lambda step: powers / total if step == 1 else powers * (np.float32(1) / step / total))


def linear_softmax(*given, axis=-1, **_):
    return quantise(softmax(dequantise(*given[:3]), axis), *given[3:])


def normalise(x, weight, bias=None, axis=-1, epsilon=1e-5, **_):
    """Whole numbers less their mean, over the root of n sum(x x) - sum(x)^2; the step is part of weight and bias."""
    if not isinstance(x, Whole):
        return None
    axes = tuple(range(x.numbers.ndim))[axis:]
    n = int(np.prod([x.numbers.shape[each] for each in axes]))
    numbers = x.numbers
    total, squares = numbers.sum(axis=axes, keepdims=True), (numbers * numbers).sum(axis=axes, keepdims=True)
    spread = (n * squares - total * total).astype(np.float32) + np.float32(epsilon * (n / float(x.scale)) ** 2)
    mean = total.astype(np.float32) * np.float32(1 / n)
    normal = (numbers.astype(np.float32) - mean) * (np.float32(n) / np.sqrt(spread))
    weight, bias = real_of(weight), np.float32(0) if bias is None else real_of(bias)
    return Rows(lambda step: normal * (weight / step) + bias / step)


OPS = {
    "Clip": clip,
    "Conv": convolve,
    "ConvInteger": convolve_integers,
    "DequantizeLinear": dequantise,
    "DynamicQuantizeLinear": dynamic,
    "Gemm": gemm,
    "GlobalAveragePool": average,
    "LayerNormalization": normalise,
    "MatMul": multiply,
    "MatMulInteger": multiply_integers,
    "MaxPool": max_pool,
    "QGemm": linear_gemm,
    "QLinearAdd": ends(np.add),
    "QLinearConv": linear_convolution,
    "QLinearGlobalAveragePool": lambda *given, **_: quantise(average(dequantise(*given[:3])), *given[3:]),
    "QLinearMatMul": lambda *given: quantise(
        multiply(dequantise(*given[:3]), dequantise(*given[3:6], given[3].ndim - 1)), *given[6:]
    ),
    "QLinearMul": ends(np.multiply),
    "QLinearSoftmax": linear_softmax,
    "QuantizeLinear": quantise,
    "Relu": relu,
    "Softmax": softmax,
}
