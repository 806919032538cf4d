"""How tensors of a quantised ONNX model are held in whole numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_windows import Image
from payload.importers.onnx_nodes import NodeWriter

if TYPE_CHECKING:
    from onnx import NodeProto

FLOAT, UINT8, INT8 = 1, 2, 3  # ONNX's numbers of types
LOW, HIGH = -128, 127


@dataclass(frozen=True)
class Bytes:
    """A tensor of bytes as it is computed: signed.

    Attributes:
        name: Name of the signed tensor.
        shift: What was subtracted of the model's own: 128 of an unsigned one.
        image: The same with channels last, where it was computed so; the tensor by `name` is then made on demand.
    """

    name: str
    shift: int
    image: Image | None = None


@dataclass(frozen=True)
class Scaled:
    """A real tensor that is held in bytes.

    Attributes:
        bytes: The bytes.
        scale: One step.
        zero: What stands for 0, of the signed bytes.
    """

    bytes: Bytes
    scale: np.float32
    zero: int

    @property
    def most(self) -> int:
        """The largest distance from the zero point."""
        return max(self.zero - LOW, HIGH - self.zero)


@dataclass(frozen=True)
class FixedWeight:
    """A weight that is held in whole numbers.

    Attributes:
        whole: Numbers less their zero points, as int64.
        scale: One step, or one for each index of an axis.
        axis: Axis of the scales.
    """

    whole: Array
    scale: Array
    axis: int

    def along(self, axis: int) -> bool:
        """Tell whether its scales are those of an axis, or one for all."""
        return self.scale.size == 1 or self.axis % self.whole.ndim == axis % self.whole.ndim

    @property
    def real(self) -> Array:
        """What it stands for."""
        sizes = [1] * self.whole.ndim
        if self.scale.size > 1:
            sizes[self.axis] = -1
        scale = self.scale.reshape(sizes) if self.whole.ndim else self.scale.reshape(())
        return np.asarray(self.whole.astype(np.float32) * scale)


@dataclass(frozen=True)
class Ending:
    """What follows a product until it is quantised again.

    Attributes:
        output: Name of the tensor in the end.
        low: Smallest real number that goes on.
        high: Largest one.
        scale: One step of what it is quantised to; `None` if it stays real.
        zero: Zero point of that, of the signed bytes.
        shift: Number that is added, as of `Bytes`.
        nodes: The nodes that are so computed with the product.
    """

    output: str
    low: float = -np.inf
    high: float = np.inf
    scale: np.float32 | None = None
    zero: int = 0
    shift: int = 0
    nodes: "tuple[NodeProto, ...]" = ()

    def step(self, real: float) -> int:
        """A real number in steps, rounded to even and held in range."""
        if self.scale is None or np.isinf(real):
            return LOW if real < 0 else HIGH
        return int(np.clip(np.rint(np.float32(real) / self.scale) + self.zero, LOW, HIGH))


def centred(writer: NodeWriter, held: Scaled, name: str) -> str:
    """Bytes less their zero point, in f32."""
    real = writer.add("Cast", name, to=FLOAT)
    return writer.add("Sub", real, writer.real(held.zero)) if held.zero else real


def dequantised(writer: NodeWriter, held: Scaled, name: str, into: str = "") -> str:
    """Bytes as real numbers."""
    return writer.add("Mul", centred(writer, held, name), writer.real(held.scale), into=into)


def held_within(writer: NodeWriter, found: str, ending: Ending) -> str:
    """Real numbers within the bounds of what follows."""
    for op, limit in (("Max", ending.low), ("Min", ending.high)):
        found = writer.add(op, found, writer.real(limit)) if np.isfinite(limit) else found
    return found


def rounded(writer: NodeWriter, steps: str, ending: Ending, into: str = "") -> str:
    """Real numbers of steps as bytes: rounded to even, beside the zero point, held in range."""
    whole = writer.add("Round", steps)
    moved = writer.add("Add", whole, writer.real(ending.zero)) if ending.zero else whole
    ends = writer.real(ending.step(ending.low)), writer.real(ending.step(ending.high))
    return writer.add("Cast", writer.add("Clip", moved, *ends), into=into, to=INT8)
