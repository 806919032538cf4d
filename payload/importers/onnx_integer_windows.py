"""Windows over images of bytes, channels last: as rows of a matrix, or pooled.

an image (n, h, w, c)   ->   rows (n h' w', i j c), one a window, for a kernel (i j c, f)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import NodeWriter, of
from payload.importers.onnx_pools import NONE, chosen_pads

if TYPE_CHECKING:
    from onnx import NodeProto

INT32 = 6  # ONNX's number of it
PLANE, OWN_PLANE = (1, 2), (2, 3)  # axes of height and width: channels last, and as models have them
FEW = 16  # channels: copies of fewer bytes take as long as one of these


@dataclass(frozen=True)
class Image:
    """A tensor with channels last, or of the model's own order.

    Attributes:
        name: Name of it.
        shape: Sizes of the image, (n, h, w, c) or (n, c, h, w).
        plane: Axes of height and width.
    """

    name: str
    shape: tuple[int, ...]
    plane: tuple[int, int] = PLANE

    @property
    def sides(self) -> tuple[int, ...]:
        """Height and width."""
        return tuple(self.shape[axis] for axis in self.plane)

    def with_sides(self, name: str, sides: Sequence[int]) -> "Image":
        """Another one of the same order, of other height and width."""
        sizes = dict(zip(self.plane, sides, strict=True))
        return Image(name, tuple(sizes.get(axis, size) for axis, size in enumerate(self.shape)), self.plane)


@dataclass(frozen=True)
class PlaneWindow:
    """How windows lie over a plane: a size for height and for width each, the two ends of it of `pads`.

    Attributes:
        kernel: Taps of a window.
        strides: Steps between windows.
        dilations: Steps between taps of one window.
        before: What is put before the plane.
        behind: What is put behind it.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def is_padded(self) -> bool:
        """Whether windows reach over the plane's borders."""
        return any((*self.before, *self.behind))

    def counts(self, plane: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each side of a plane."""
        sides = zip(plane, self.kernel, self.strides, self.dilations, self.before, self.behind, strict=True)
        return tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, d, low, high in sides)

    def inside(self, plane: Sequence[int]) -> Array:
        """Which taps of each window lie on the plane, (windows, taps), both in order."""
        found = []
        sides = zip(plane, self.counts(plane), self.kernel, self.strides, self.dilations, self.before, strict=True)
        for size, count, k, s, d, low in sides:
            at = np.arange(count)[:, None] * s + np.arange(k) * d - low
            found.append((at >= 0) & (at < size))
        return np.asarray(np.einsum("hi,wj->hwij", *found).reshape(len(found[0]) * len(found[1]), -1))


def window_of(node: "NodeProto", kernel: Sequence[int], plane: Sequence[int]) -> PlaneWindow | None:
    """The windows of a convolution or pool; `None` where the last ones are not whole."""
    rank = len(kernel)
    strides = tuple(of(node, "strides", [1] * rank))
    dilations = tuple(of(node, "dilations", [1] * rank))
    if of(node, "ceil_mode", 0):
        return None
    pads, auto = list(of(node, "pads", [0] * 2 * rank)), of(node, "auto_pad", NONE)
    before, behind = pads[:rank], pads[rank:]
    if auto != NONE:
        sides = zip(plane, strides, kernel, dilations, strict=True)
        ends = [chosen_pads(auto, size, step, (taps - 1) * gap + 1) for size, step, taps, gap in sides]
        before, behind = map(list, zip(*ends, strict=True))
    return PlaneWindow(tuple(kernel), strides, dilations, tuple(before), tuple(behind))


def padded(writer: NodeWriter, image: Image, window: PlaneWindow, value: int) -> Image:
    """An image of bytes with borders of a value."""
    if not window.is_padded:
        return image
    before, behind = (image.with_sides("", ends).shape for ends in (window.before, window.behind))
    ends = [[size if axis in image.plane else 0 for axis, size in enumerate(each)] for each in (before, behind)]
    name = writer.add("Pad", image.name, writer.numbers(*ends[0], *ends[1]), writer.constant(np.array(value, np.int8)))
    sides = zip(image.sides, window.before, window.behind, strict=True)
    return image.with_sides(name, [size + low + high for size, low, high in sides])


def taps(writer: NodeWriter, image: Image, window: PlaneWindow, counts: Sequence[int]) -> Iterator[str]:
    """For each tap of a window, what all windows have there: (n, h', w', c), or (n, c, h', w')."""
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            first = [i * window.dilations[0], j * window.dilations[1]]
            ends = [f + (n - 1) * s + 1 for f, n, s in zip(first, counts, window.strides, strict=True)]
            if first == [0, 0] and tuple(ends) == image.sides and window.strides == (1, 1):
                yield image.name
                continue
            bounds = (writer.numbers(*each) for each in (first, ends, image.plane, window.strides))
            yield writer.add("Slice", image.name, *bounds)


def sums_of_rows(writer: NodeWriter, name: str, axis: int) -> str:
    """Sums of bytes along an axis, which stays with one element, in 32 bits."""
    return writer.add("ReduceSum", writer.add("Cast", name, to=INT32), writer.numbers(axis), keepdims=1)


@dataclass(frozen=True)
class WindowRows:
    """Windows as rows of a matrix.

    Attributes:
        name: The matrix, (n h' w', i j c).
        shape: What its rows lie in, (n, h', w').
        kernel: Taps of a row, (i, j): more than those of a window where it is read by whole steps.
        image: What a row has neighbours of, perhaps lines of windows.
        window: How they lie in it.
    """

    name: str
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    image: Image
    window: PlaneWindow

    @classmethod
    def joined(
        cls, writer: NodeWriter, image: Image, window: PlaneWindow, shape: tuple[int, ...], kernel: tuple[int, ...]
    ) -> "WindowRows":
        """Rows of what all windows of an image have at each of their taps."""
        found = list(taps(writer, image, window, shape[1:]))
        whole = writer.add("Concat", *found, axis=3) if len(found) > 1 else found[0]
        name = writer.reshape(whole, prod(shape), len(found) * image.shape[3])
        return cls(name, shape, kernel, image, window)

    def sums(self, writer: NodeWriter) -> str:
        """The sum of each row, (n, h', w', 1), in 32 bits: of channels first, then of taps."""
        of_channels = sums_of_rows(writer, self.image.name, 3)
        first, *others = taps(writer, Image(of_channels, (*self.image.shape[:3], 1)), self.window, self.shape[1:])
        for each in others:
            first = writer.add("Add", first, each)
        return first

    def in_order(self, weight: Array) -> Array:
        """A weight (f, c, i, j) as it meets the rows, (i j c, f); zeros where a row has more taps."""
        more = self.kernel[1] - weight.shape[3]
        return np.pad(weight, ((0, 0), (0, 0), (0, 0), (0, more))).transpose(2, 3, 1, 0).reshape(-1, weight.shape[0])


def as_rows(writer: NodeWriter, image: Image, window: PlaneWindow) -> WindowRows:
    """The windows of an image that has its borders as rows."""
    n, *plane, c = image.shape
    inner = zip(plane, window.before, window.behind, strict=True)
    whole = (n, *window.counts([size - low - high for size, low, high in inner]))
    if c < FEW and window.kernel[1] > 1 and window.dilations[1] == 1:
        return by_steps(writer, image, window, whole)
    return WindowRows.joined(writer, image, window, whole, window.kernel)


def by_steps(writer: NodeWriter, image: Image, window: PlaneWindow, whole: tuple[int, ...]) -> WindowRows:
    """Windows of few channels: first along the width, by as many columns as a step has, then along the height.

    What is copied at once is longer, and copies of windows that begin in one row are made once for all rows.
    """
    (n, height, width, c), step = image.shape, window.strides[1]
    steps = -(-window.kernel[1] // step)
    wide, name = (whole[2] - 1 + steps) * step, image.name
    if wide > width:
        pads = writer.numbers(0, 0, 0, 0, 0, 0, wide - width, 0)
        name = writer.add("Pad", name, pads, writer.constant(np.array(0, np.int8)))
    elif wide < width:
        name = writer.slice(name, 0, wide, 2)
    folded = Image(writer.reshape(name, n, height, wide // step, step * c), (n, height, wide // step, step * c))
    along = PlaneWindow((1, steps), (1, 1), (1, 1), (0, 0), (0, 0))
    lines = list(taps(writer, folded, along, (height, whole[2])))
    line = writer.add("Concat", *lines, axis=3) if steps > 1 else lines[0]
    lined = Image(line, (n, height, whole[2], steps * step * c))
    down = replace(window, kernel=(window.kernel[0], 1), strides=(window.strides[0], 1))
    return WindowRows.joined(writer, lined, down, whole, (window.kernel[0], steps * step))


def largest(writer: NodeWriter, image: Image, window: PlaneWindow) -> Image:
    """The largest of each window."""
    counts = window.counts(image.sides)
    wide = padded(writer, image, window, -128)
    first, *others = list(taps(writer, wide, window, counts))
    for each in others:
        first = writer.add("Max", first, each)
    return image.with_sides(first, counts)
