"""Sliding windows over i8 images with channels last: im2col and max pooling.

an image (n, h, w, c)   ->   rows (n h' w', i j c), one per window, for a kernel (i j c, f)
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

INT32 = 6  # TensorProto.INT32
PLANE, OWN_PLANE = (1, 2), (2, 3)  # axes of height and width in NHWC, and in NCHW
FEW = 16  # number of channels below which copying a tap takes as long as copying 16 bytes


@dataclass(frozen=True)
class Image:
    """Image tensor in NHWC, or in the model's NCHW layout.

    Attributes:
        name: Name of the tensor.
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
        """Return an image of the same layout with another name, height and width."""
        sizes = dict(zip(self.plane, sides, strict=True))
        return Image(name, tuple(sizes.get(axis, size) for axis, size in enumerate(self.shape)), self.plane)


@dataclass(frozen=True)
class PlaneWindow:
    """Window parameters, each for height and width.

    Attributes:
        kernel: Number of taps of a window.
        strides: Distances between windows.
        dilations: Distances between the taps of a window.
        before: Leading pads.
        behind: Trailing pads.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def is_padded(self) -> bool:
        """Whether there is any padding."""
        return any((*self.before, *self.behind))

    def counts(self, plane: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows along height and width."""
        sides = zip(plane, self.kernel, self.strides, self.dilations, self.before, self.behind, strict=True)
        return tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, d, low, high in sides)

    def inside(self, plane: Sequence[int]) -> Array:
        """Return which taps of each window are inside the image, (windows, taps), both row-major."""
        masks = []
        sides = zip(plane, self.counts(plane), self.kernel, self.strides, self.dilations, self.before, strict=True)
        for size, count, k, s, d, low in sides:
            at = np.arange(count)[:, None] * s + np.arange(k) * d - low
            masks.append((at >= 0) & (at < size))
        return np.asarray(np.einsum("hi,wj->hwij", *masks).reshape(len(masks[0]) * len(masks[1]), -1))


def window_of(node: "NodeProto", kernel: Sequence[int], plane: Sequence[int]) -> PlaneWindow | None:
    """Return the windows of a convolution or pool; `None` with `ceil_mode`."""
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
    """Pad an i8 image with a value."""
    if not window.is_padded:
        return image
    before, behind = (image.with_sides("", ends).shape for ends in (window.before, window.behind))
    ends = [[size if axis in image.plane else 0 for axis, size in enumerate(each)] for each in (before, behind)]
    name = writer.add("Pad", image.name, writer.numbers(*ends[0], *ends[1]), writer.constant(np.array(value, np.int8)))
    sides = zip(image.sides, window.before, window.behind, strict=True)
    return image.with_sides(name, [size + low + high for size, low, high in sides])


def taps(writer: NodeWriter, image: Image, window: PlaneWindow, counts: Sequence[int]) -> Iterator[str]:
    """Yield each tap of all windows: (n, h', w', c), or (n, c, h', w')."""
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
    """Sum i8 values along an axis in i32, keeping the axis."""
    return writer.add("ReduceSum", writer.add("Cast", name, to=INT32), writer.numbers(axis), keepdims=1)


@dataclass(frozen=True)
class WindowRows:
    """Matrix whose rows are windows (im2col).

    Attributes:
        name: Name of the matrix, (n h' w', i j c).
        shape: Shape of the grid of windows, (n, h', w').
        kernel: Taps per row, (i, j); j exceeds the window's width if it is rounded up to a multiple of the stride.
        image: Image whose taps are concatenated in a row; for narrow images, its row windows.
        window: Windows over `image`.
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
        """Concatenate all taps of the windows of an image to rows."""
        tap_names = list(taps(writer, image, window, shape[1:]))
        whole = writer.add("Concat", *tap_names, axis=3) if len(tap_names) > 1 else tap_names[0]
        name = writer.reshape(whole, prod(shape), len(tap_names) * image.shape[3])
        return cls(name, shape, kernel, image, window)

    def sums(self, writer: NodeWriter) -> str:
        """Return the i32 sum of each row, (n, h', w', 1): over channels first, then over taps."""
        of_channels = sums_of_rows(writer, self.image.name, 3)
        first, *others = taps(writer, Image(of_channels, (*self.image.shape[:3], 1)), self.window, self.shape[1:])
        for each in others:
            first = writer.add("Add", first, each)
        return first

    def in_order(self, weight: Array) -> Array:
        """Arrange a weight (f, c, i, j) to match the rows, (i j c, f), with zeros for additional taps."""
        more = self.kernel[1] - weight.shape[3]
        return np.pad(weight, ((0, 0), (0, 0), (0, 0), (0, more))).transpose(2, 3, 1, 0).reshape(-1, weight.shape[0])


def as_rows(writer: NodeWriter, image: Image, window: PlaneWindow) -> WindowRows:
    """Return the windows of a padded image as rows."""
    n, *plane, c = image.shape
    inner = zip(plane, window.before, window.behind, strict=True)
    whole = (n, *window.counts([size - low - high for size, low, high in inner]))
    if c < FEW and window.kernel[1] > 1 and window.dilations[1] == 1:
        return by_steps(writer, image, window, whole)
    return WindowRows.joined(writer, image, window, whole, window.kernel)


def by_steps(writer: NodeWriter, image: Image, window: PlaneWindow, whole: tuple[int, ...]) -> WindowRows:
    """Build rows for few channels: first windows along the width, in units of the stride, then along the height.

    Contiguous copies are longer this way, and the copies of row windows are shared by all windows that overlap a row.
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
    """Compute the maximum of each window."""
    counts = window.counts(image.sides)
    wide = padded(writer, image, window, -128)
    first, *others = list(taps(writer, wide, window, counts))
    for each in others:
        first = writer.add("Max", first, each)
    return image.with_sides(first, counts)
