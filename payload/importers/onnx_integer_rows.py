"""Softmax and LayerNormalization of rows of bytes: what a row has in common is found in whole numbers.

    softmax(s (x - z))          ->   m = max(x);  e = exp(s (x - m));  e / sum(e)
    norm(s (x - z)) * w + b     ->   S = sum(x);  Q = sum(x x);  r = n / sqrt(n Q - S S + eps (n / s)^2)
                                     (x - S / n) r * w + b

Neither depends on the zero point, and norms not on the scale but for their epsilon. Sums of bytes are exact in 32 bits,
what becomes of them in 64. Where the result is quantised, its scale is part of one factor of a row, or of w and b.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_products import SUMS, ProductWriter
from payload.importers.onnx_integer_windows import INT32
from payload.importers.onnx_integer_writer import IntegerWriter
from payload.importers.onnx_integers import FLOAT, LOW, Ending, Scaled, held_within, rounded
from payload.importers.onnx_nodes import NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

INT64 = 7  # ONNX's number of the type
OF_ONE_AXIS = 13  # the first version whose softmax is of one axis


@dataclass(frozen=True)
class RowWriter:
    """Writes the nodes of an op of rows.

    Attributes:
        held: The model.
        writer: Takes the nodes.
        x: What the rows are of.
        axes: Axes that a row is along.
        count: Elements of a row.
    """

    held: IntegerWriter
    writer: NodeWriter
    x: Scaled
    axes: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, held: IntegerWriter, writer: NodeWriter, name: str, first: int, last: int | None = None) -> "RowWriter":
        """A writer of rows of a tensor in bytes, from one of its axes on."""
        shape = held.facts.shapes[name]
        axes = tuple(range(len(shape)))[first:last]
        return cls(held, writer, held.scaled[name], axes, prod(shape[axis] for axis in axes))

    def sum(self, name: str) -> str:
        """Sums of rows, with axes of one element instead of theirs."""
        return self.writer.add("ReduceSum", name, self.writer.numbers(*self.axes), keepdims=1)

    def cast(self, name: str, kind: int) -> str:
        """Numbers of another type."""
        return self.writer.add("Cast", name, to=kind)

    def softmax(self, ending: Ending) -> str:
        """The softmax of rows; bytes, if it is quantised."""
        add, whole = self.writer.add, self.held.natural(self.writer, self.x.bytes)
        most = add("ReduceMax", whole, self.writer.numbers(*self.axes), keepdims=1)
        below = add("Sub", self.cast(whole, FLOAT), self.cast(most, FLOAT))
        powers = add("Exp", add("Mul", below, self.writer.real(self.x.scale)))
        total = self.sum(powers)
        if ending.scale is None:
            return held_within(self.writer, add("Div", powers, total), ending)
        step = add("Div", self.writer.real(np.float32(1) / ending.scale), total)
        return rounded(self.writer, add("Mul", powers, step), ending)

    def norm(self, ending: Ending, epsilon: float, weight: Array, bias: Array) -> str:
        """What rows are normalised to; bytes, if it is quantised."""
        add, writer = self.writer.add, self.writer
        n, natural = self.count, self.held.natural(writer, self.x.bytes)
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
            self.held.add_weight(f"{writer.stem}_{what}", each.astype(np.float32))
            for what, each in (("weight", weight), ("bias", bias))
        ]
        found = add("Add", add("Mul", normal, names[0]), names[1])
        return held_within(writer, found, ending) if ending.scale is None else rounded(writer, found, ending)


def softmax(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """Softmax along one axis of what is held in bytes."""
    x, version = node.input[0], next(each.version for each in held.model.opset_import if not each.domain)
    if x not in held.scaled or x not in held.facts.shapes or version < OF_ONE_AXIS:
        return False
    shape, ending = held.facts.shapes[x], held.ending_of(node.output[0])
    axis = of(node, "axis", -1) % len(shape)
    found = RowWriter.of(held, writer, x, axis, axis + 1).softmax(ending)
    return ProductWriter(held, writer).give(found, ending, shape)


def normalise(held: IntegerWriter, writer: NodeWriter, node: "NodeProto") -> bool:
    """LayerNormalization of what is held in bytes, by a weight and a bias that are known."""
    x, *others = node.input
    given = [real_weight(held, name) for name in others if name]
    if x not in held.scaled or x not in held.facts.shapes or len([name for name in node.output if name]) > 1:
        return False
    rows = RowWriter.of(held, writer, x, of(node, "axis", -1))
    if any(each is None for each in given) or rows.count * LOW * LOW > SUMS:
        return False
    ending, (weight, *bias) = held.ending_of(node.output[0]), (each for each in given if each is not None)
    found = rows.norm(ending, of(node, "epsilon", 1e-5), weight, bias[0] if bias else np.zeros_like(weight))
    return ProductWriter(held, writer).give(found, ending, held.facts.shapes[x])


def real_weight(held: IntegerWriter, name: str) -> Array | None:
    """A weight in f32, whether it is held so or in whole numbers; `None` if it is not known."""
    if name in held.fixed:
        return held.fixed[name].real
    found = held.known.get(name)
    return found if found is not None and found.dtype == np.float32 else None
