"""Decomposition of a transposed convolution by the phases of its stride into dense ones, one channel per phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class Phases:
    """One dimension of a transposed convolution; result positions are grouped by `stride` consecutive ones.

    Attributes:
        stride: Stride: positions of the result per position of the input.
        kernel: Size of the kernel.
        first: First group that overlaps the result.
        pads: Leading and trailing pads of the input, for the phases with most taps.
        skipped: Positions of the first group that are cropped.
        size: Size of the result.
    """

    stride: int
    kernel: int
    first: int
    pads: tuple[int, int]
    skipped: int
    size: int

    @property
    def groups(self) -> int:
        """Number of groups of positions."""
        return -(-(self.skipped + self.size) // self.stride)

    @property
    def read(self) -> int:
        """Number of phases with taps; if the kernel is shorter than the stride, the others have none."""
        return min(self.stride, self.kernel)


def phases_of(length: int, kernel: int, stride: int, pads: Sequence[int], more: int) -> Phases | None:
    """Return the phases of a dimension; `None` if dense convolutions would not read all of the input.

    Args:
        length: Size of the input.
        kernel: Size of the kernel.
        stride: Stride.
        pads: Positions cropped before and after.
        more: Positions added after (output padding).

    Example:
        >>> phases_of(5, 3, 2, (0, 0), 0)
        Phases(stride=2, kernel=3, first=0, pads=(1, 1), skipped=0, size=11)
        >>> phases_of(5, 2, 3, (0, 0), 0).read
        2
        >>> phases_of(5, 2, 2, (3, 3), 0) is None
        True
    """
    taps = -(-kernel // stride)
    size = (length - 1) * stride + kernel + more - sum(pads)
    first, last = pads[0] // stride, (pads[0] + size - 1) // stride
    padding = (taps - 1 - first, last - length + 1)
    if kernel % stride and taps > 1 and padding[0] == 0:
        return None  # some phases do not read the first element
    if min(padding) < 0 or last > length + taps - 2:
        return None
    return Phases(stride, kernel, first, padding, pads[0] - stride * first, size)


@dataclass(frozen=True)
class Dense:
    """A dense convolution that computes some phases of a transposed one.

    Attributes:
        kernel: Weights, ``(M phases, C / group, taps..)``.
        phases: Number of phases that it computes.
        pads: Leading and trailing pads of each dimension.
    """

    kernel: Array
    phases: int
    pads: list[tuple[int, int]]


def dense_convolutions(kernel: Array, axes: Sequence[Phases], group: int) -> list[Dense]:
    """Return one convolution for all phases with taps if they have equally many; else one for each, in order.

    Phases with fewer taps are not padded with zero weights, because zero times NaN or infinity would be NaN.

    Args:
        kernel: Kernel of the transposed convolution, ``(C, M / group, k..)``.
        axes: Phases of each dimension.
        group: Groups of channels.

    Example:
        >>> axes = [phases_of(5, 3, 2, (0, 0), 0)]
        >>> [each.kernel[:, 0] for each in dense_convolutions(np.array([[[1, 2, 3]]]), axes, 1)]
        [array([[3, 1]]), array([[2]])]
    """
    strides = [axis.read for axis in axes]
    if not any(axis.kernel % axis.read for axis in axes):
        return [Dense(arranged(kernel, strides, group), prod(strides), [axis.pads for axis in axes])]
    parts = []
    for phases in np.ndindex(*strides):
        elements = tuple(slice(phase, None, stride) for phase, stride in zip(phases, strides, strict=True))
        part = kernel[:, :, *elements]
        fewer = [-(-axis.kernel // axis.stride) - taps for axis, taps in zip(axes, part.shape[2:], strict=True)]
        pads = [(axis.pads[0] - less, axis.pads[1]) for axis, less in zip(axes, fewer, strict=True)]
        parts.append(Dense(arranged(part, [1] * len(axes), group), 1, pads))
    return parts


def arranged(kernel: Array, strides: Sequence[int], group: int) -> Array:
    """Rearrange a kernel ``(C, M / group, k..)`` for a dense convolution, ``(M strides.., C / group, taps..)``.

    Example:
        >>> arranged(np.array([[[1, 2, 3, 4]]]), [2], 1)[:, 0]
        array([[3, 1],
               [4, 2]])
    """
    channels, made, *sides = kernel.shape
    rank, taps = len(sides), [side // stride for side, stride in zip(sides, strides, strict=True)]
    sizes = (size for pair in zip(taps, strides, strict=True) for size in pair)
    apart = kernel.reshape(group, channels // group, made, *sizes)
    tap_axes, phase_axes = [3 + 2 * d for d in range(rank)], [4 + 2 * d for d in range(rank)]
    ordered = np.flip(apart, tuple(tap_axes)).transpose(0, 2, *phase_axes, 1, *tap_axes)
    return np.ascontiguousarray(ordered.reshape(group * made * prod(strides), channels // group, *taps))


def spread_order(rank: int, *, is_joined: bool) -> list[int]:
    """Return the permutation of ``(N, M, strides.., groups..)`` to ``(N, M, group, stride, ..)``.

    Args:
        rank: Number of spatial dimensions.
        is_joined: Whether the strides come before the channels, as after the concatenation of separate phases.

    Example:
        >>> spread_order(2, is_joined=False), spread_order(2, is_joined=True)
        ([0, 1, 4, 2, 5, 3], [0, 3, 4, 1, 5, 2])
    """
    channels, phases = (1 + rank, 1) if is_joined else (1, 2)
    return [0, channels, *(axis for d in range(rank) for axis in (2 + rank + d, phases + d))]
