"""Integer representations of the tensors of a quantized ONNX model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_windows import Image
from payload.importers.onnx_nodes import NodeWriter

if TYPE_CHECKING:
    from onnx import NodeProto

FLOAT, UINT8, INT8 = 1, 2, 3  # element types in TensorProto
LOW, HIGH = -128, 127


@dataclass(frozen=True)
class Bytes:
    """An 8-bit tensor of the model, represented in i8.

    Attributes:
        name: Name of the i8 tensor.
        shift: Amount subtracted from the model's values: 128 for u8, 0 for i8.
        image: Representation with channels last, if it was computed so; the tensor `name` is then created on demand.
    """

    name: str
    shift: int
    image: Image | None = None


@dataclass(frozen=True)
class Scaled:
    """A float tensor that is represented in i8.

    Attributes:
        bytes: Representation in i8.
        scale: Scale.
        zero: Zero point in i8.
    """

    bytes: Bytes
    scale: np.float32
    zero: int

    @property
    def most(self) -> int:
        """Largest distance of an i8 value from the zero point."""
        return max(self.zero - LOW, HIGH - self.zero)


@dataclass(frozen=True)
class FixedWeight:
    """A constant weight that is represented in integers.

    Attributes:
        whole: Values minus their zero points, as int64.
        scale: One scale, or one for each index of an axis.
        axis: Axis of the scales.
    """

    whole: Array
    scale: Array
    axis: int

    def along(self, axis: int) -> bool:
        """Return whether the scales are along the given axis, or one for all."""
        return self.scale.size == 1 or self.axis % self.whole.ndim == axis % self.whole.ndim

    @property
    def real(self) -> Array:
        """Dequantized weight in f32."""
        sizes = [1] * self.whole.ndim
        if self.scale.size > 1:
            sizes[self.axis] = -1
        scale = self.scale.reshape(sizes) if self.whole.ndim else self.scale.reshape(())
        return np.asarray(self.whole.astype(np.float32) * scale)


@dataclass(frozen=True)
class Ending:
    """Epilogue fused with a product: clipping, and optional quantization of the result.

    Attributes:
        output: Name of the result.
        low: Lower bound of the result.
        high: Upper bound of the result.
        scale: Scale of the quantized result; `None` if the result is float.
        zero: Zero point of the result, in i8.
        shift: Shift of the result, as in `Bytes`.
        nodes: Nodes that are fused with the product.
    """

    output: str
    low: float = -np.inf
    high: float = np.inf
    scale: np.float32 | None = None
    zero: int = 0
    shift: int = 0
    nodes: "tuple[NodeProto, ...]" = ()

    def step(self, real: float) -> int:
        """Quantize a bound: round to even and saturate."""
        if self.scale is None or np.isinf(real):
            return LOW if real < 0 else HIGH
        return int(np.clip(np.rint(np.float32(real) / self.scale) + self.zero, LOW, HIGH))


def centred(writer: NodeWriter, scaled: Scaled, name: str) -> str:
    """Convert i8 to f32 and subtract the zero point."""
    real = writer.add("Cast", name, to=FLOAT)
    return writer.add("Sub", real, writer.real(scaled.zero)) if scaled.zero else real


def dequantised(writer: NodeWriter, scaled: Scaled, name: str, into: str = "") -> str:
    """Dequantize i8 to f32."""
    return writer.add("Mul", centred(writer, scaled, name), writer.real(scaled.scale), into=into)


def clip_to(writer: NodeWriter, clipped: str, ending: Ending) -> str:
    """Clip floats to the bounds of an ending."""
    for op, limit in (("Max", ending.low), ("Min", ending.high)):
        clipped = writer.add(op, clipped, writer.real(limit)) if np.isfinite(limit) else clipped
    return clipped


def rounded(writer: NodeWriter, steps: str, ending: Ending, into: str = "") -> str:
    """Quantize floats in units of the scale to i8: round to even, add the zero point, saturate."""
    whole = writer.add("Round", steps)
    moved = writer.add("Add", whole, writer.real(ending.zero)) if ending.zero else whole
    ends = writer.real(ending.step(ending.low)), writer.real(ending.step(ending.high))
    return writer.add("Cast", writer.add("Clip", moved, *ends), into=into, to=INT8)
