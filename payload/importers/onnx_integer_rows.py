"""Rewrites of Softmax and LayerNormalization of i8 tensors: row maxima and sums are computed in integers.

    softmax(s (x - z))          ->   m = max(x);  e = exp(s (x - m));  e / sum(e)
    norm(s (x - z)) * w + b     ->   S = sum(x);  Q = sum(x x);  r = n / sqrt(n Q - S S + eps (n / s)^2)
                                     (x - S / n) r * w + b

Neither depends on the zero point, and norms depend on the scale through epsilon only. Sums of i8 are exact in i32,
their products in i64. If the result is quantized, its scale is folded into one factor per row, or into w and b.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_products import SUMS, ProductWriter
from payload.importers.onnx_integer_windows import INT32
from payload.importers.onnx_integer_writer import IntegerWriter
from payload.importers.onnx_integers import FLOAT, LOW, Ending, Scaled, clip_to, rounded
from payload.importers.onnx_nodes import NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

INT64 = 7  # TensorProto.INT64
OF_ONE_AXIS = 13  # first opset version whose Softmax is along one axis


@dataclass(frozen=True)
class RowWriter:
    """Writer of the nodes of a rowwise op.

    Attributes:
        integers: State of the model's integer rewrite.
        writer: Writer of the nodes.
        x: Input in i8.
        axes: Axes of a row.
        count: Number of elements of a row.
    """

    integers: IntegerWriter
    writer: NodeWriter
    x: Scaled
    axes: tuple[int, ...]
    count: int

    @classmethod
    def of(
        cls, integers: IntegerWriter, writer: NodeWriter, name: str, first: int, last: int | None = None
    ) -> "RowWriter":
        """Create a writer for rows along the axes from `first` to `last` of an i8 tensor."""
        shape = integers.facts.shapes[name]
        axes = tuple(range(len(shape)))[first:last]
        return cls(integers, writer, integers.scaled[name], axes, prod(shape[axis] for axis in axes))

    def sum(self, name: str) -> str:
        """Sum rows, keeping their axes."""
        return self.writer.add("ReduceSum", name, self.writer.numbers(*self.axes), keepdims=1)

    def cast(self, name: str, kind: int) -> str:
        """Cast to another element type."""
        return self.writer.add("Cast", name, to=kind)

    def softmax(self, ending: Ending) -> str:
        """Compute the softmax of rows, in i8 if it is quantized."""
        add, whole = self.writer.add, self.integers.natural(self.writer, self.x.bytes)
        most = add("ReduceMax", whole, self.writer.numbers(*self.axes), keepdims=1)
        below = add("Sub", self.cast(whole, FLOAT), self.cast(most, FLOAT))
        powers = add("Exp", add("Mul", below, self.writer.real(self.x.scale)))
        total = self.sum(powers)
        if ending.scale is None:
            return clip_to(self.writer, add("Div", powers, total), ending)
        step = add("Div", self.writer.real(np.float32(1) / ending.scale), total)
        return rounded(self.writer, add("Mul", powers, step), ending)

    def norm(self, ending: Ending, epsilon: float, weight: Array, bias: Array) -> str:
        """Normalize rows, in i8 if the result is quantized."""
        add, writer = self.writer.add, self.writer
        n, natural = self.count, self.integers.natural(writer, self.x.bytes)
        whole = self.cast(natural, INT32)
        total, squares = (self.cast(self.sum(each), INT64) for each in (whole, add("Mul", whole, whole)))
        spread = add("Sub", add("Mul", squares, writer.number(n, INT64)), add("Mul", total, total))
        within = add("Add", self.cast(spread, FLOAT), writer.real(epsilon * (n / float(self.x.scale)) ** 2))
        factor = add("Div", writer.real(n), add("Sqrt", within))
        mean = add("Mul", self.cast(total, FLOAT), writer.real(1 / n))
        normal = add("Mul", add("Sub", self.cast(natural, FLOAT), mean), factor)
        if ending.scale is not None:
            weight, bias = weight / ending.scale, bias / ending.scale
        names = [
            self.integers.add_weight(f"{writer.stem}_{suffix}", each.astype(np.float32))
            for suffix, each in (("weight", weight), ("bias", bias))
        ]
        scaled = add("Add", add("Mul", normal, names[0]), names[1])
        return clip_to(writer, scaled, ending) if ending.scale is None else rounded(writer, scaled, ending)


def softmax(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite Softmax along one axis of an i8 tensor."""
    x, version = node.input[0], next(each.version for each in integers.model.opset_import if not each.domain)
    if x not in integers.scaled or x not in integers.facts.shapes or version < OF_ONE_AXIS:
        return False
    shape, ending = integers.facts.shapes[x], integers.ending_of(node.output[0])
    axis = of(node, "axis", -1) % len(shape)
    result = RowWriter.of(integers, writer, x, axis, axis + 1).softmax(ending)
    return ProductWriter(integers, writer).give(result, ending, shape)


def normalise(integers: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Rewrite LayerNormalization of an i8 tensor with constant weight and bias."""
    x, *others = node.input
    affine = [real_weight(integers, name) for name in others if name]
    if x not in integers.scaled or x not in integers.facts.shapes or len([name for name in node.output if name]) > 1:
        return False
    rows = RowWriter.of(integers, writer, x, of(node, "axis", -1))
    if any(each is None for each in affine) or rows.count * LOW * LOW > SUMS:
        return False
    ending, (weight, *bias) = integers.ending_of(node.output[0]), (each for each in affine if each is not None)
    result = rows.norm(ending, of(node, "epsilon", 1e-5), weight, bias[0] if bias else np.zeros_like(weight))
    return ProductWriter(integers, writer).give(result, ending, integers.facts.shapes[x])


def real_weight(integers: IntegerWriter, name: str) -> Array | None:
    """Return a constant weight in f32, dequantized if needed; `None` if it is not constant."""
    if name in integers.fixed:
        return integers.fixed[name].real
    weight = integers.known.get(name)
    return weight if weight is not None and weight.dtype == np.float32 else None
