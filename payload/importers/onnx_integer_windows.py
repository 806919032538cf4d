"""Windows over images of bytes, channels last: as rows of a matrix, or pooled.

an image (n, h, w, c)   ->   rows (n h' w', i j c), one a place, for a kernel (i j c, f)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_nodes import NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

PLANE = (1, 2)  # axes of height and width, channels last


@dataclass(frozen=True)
class Image:
    """A tensor with channels last.

    Attributes:
        name: Name of it.
        shape: Sizes of the image, (n, h, w, c).
    """

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class PlaneWindow:
    """How windows lie over a plane: a size for height and for width each, the two ends of it of `pads`.

    Attributes:
        kernel: Places of a window.
        strides: Steps between windows.
        dilations: Steps between places of one window.
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
        """Which places of each window lie on the plane, (windows, places), both in order."""
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
    pads, auto = list(of(node, "pads", [0] * 2 * rank)), of(node, "auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [0] * 2 * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = zip(plane, kernel, strides, dilations, strict=True)
        whole = [max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size) for size, k, s, d in sides]
        less, more = [each // 2 for each in whole], [each - each // 2 for each in whole]
        pads = [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    return PlaneWindow(tuple(kernel), strides, dilations, tuple(pads[:rank]), tuple(pads[rank:]))


def padded(writer: NodeWriter, image: Image, window: PlaneWindow, value: int) -> Image:
    """An image of bytes with borders of a value."""
    if not window.is_padded:
        return image
    n, h, w, c = image.shape
    pads = writer.numbers(0, *window.before, 0, 0, *window.behind, 0)
    name = writer.add("Pad", image.name, pads, writer.constant(np.array(value, np.int8)))
    sides = zip((h, w), window.before, window.behind, strict=True)
    return Image(name, (n, *(size + low + high for size, low, high in sides), c))


def taps(writer: NodeWriter, image: Image, window: PlaneWindow, counts: Sequence[int]) -> Iterator[str]:
    """For each place of a window, what all windows have there: (n, h', w', c)."""
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            first = [i * window.dilations[0], j * window.dilations[1]]
            ends = [f + (n - 1) * s + 1 for f, n, s in zip(first, counts, window.strides, strict=True)]
            if first == [0, 0] and tuple(ends) == image.shape[1:3] and window.strides == (1, 1):
                yield image.name
                continue
            bounds = (writer.numbers(*each) for each in (first, ends, PLANE, window.strides))
            yield writer.add("Slice", image.name, *bounds)


def as_rows(writer: NodeWriter, image: Image, window: PlaneWindow) -> tuple[str, tuple[int, ...]]:
    """The windows of an image as rows, (n h' w', i j c), and the shape (n, h', w') that they lie in."""
    n, *plane, c = image.shape
    whole = (
        n,
        *window.counts(
            tuple(size - low - high for size, low, high in zip(plane, window.before, window.behind, strict=True))
        ),
    )
    found = list(taps(writer, image, window, whole[1:]))
    joined = writer.add("Concat", *found, axis=3) if len(found) > 1 else found[0]
    return writer.reshape(joined, int(np.prod(whole)), len(found) * c), whole


def largest(writer: NodeWriter, image: Image, window: PlaneWindow) -> Image:
    """The largest of each window."""
    n, *plane, c = image.shape
    counts = window.counts(plane)
    wide = padded(writer, image, window, -128)
    first, *others = list(taps(writer, wide, window, counts))
    for each in others:
        first = writer.add("Max", first, each)
    return Image(first, (n, *counts, c))
