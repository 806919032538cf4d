"""Phases of a transposed convolution's stride: its kernel as those of dense ones, a channel for each phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class Phases:
    """One dimension of a transposed convolution.

    Attributes:
        stride: Positions of the result for one of what is read.
        kernel: Elements of the kernel.
        first: First group of a position for each phase that the result has a part of.
        pads: Zeros before and behind what is read, for the phases that multiply by most elements.
        skipped: Positions of the first group that are no part of the result.
        size: Positions of the result.
    """

    stride: int
    kernel: int
    first: int
    pads: tuple[int, int]
    skipped: int
    size: int

    @property
    def groups(self) -> int:
        """Groups of positions."""
        return -(-(self.skipped + self.size) // self.stride)

    @property
    def read(self) -> int:
        """Phases that read something: those behind the end of a kernel shorter than the stride read nothing."""
        return min(self.stride, self.kernel)


def phases_of(given: int, kernel: int, stride: int, pads: Sequence[int], more: int) -> Phases | None:
    """The phases of a dimension; `None` where dense convolutions would not read all of its input.

    Args:
        given: Positions of what is read.
        kernel: Elements of the kernel.
        stride: Positions of the result for one of what is read.
        pads: Positions that are cut off before and behind.
        more: Positions that are added behind.

    Example:
        >>> phases_of(5, 3, 2, (0, 0), 0)
        Phases(stride=2, kernel=3, first=0, pads=(1, 1), skipped=0, size=11)
        >>> phases_of(5, 2, 3, (0, 0), 0).read
        2
        >>> phases_of(5, 2, 2, (3, 3), 0) is None
        True
    """
    taps = -(-kernel // stride)
    size = (given - 1) * stride + kernel + more - sum(pads)
    first, last = pads[0] // stride, (pads[0] + size - 1) // stride
    around = (taps - 1 - first, last - given + 1)
    if kernel % stride and taps > 1 and around[0] == 0:
        return None  # some phases do not read what lies first
    if min(around) < 0 or last > given + taps - 2:
        return None
    return Phases(stride, kernel, first, around, pads[0] - stride * first, size)


@dataclass(frozen=True)
class Dense:
    """A dense convolution that gives some phases of a transposed one.

    Attributes:
        kernel: Weights, ``(M phases, C / group, taps..)``.
        phases: Number of phases that it gives.
        pads: Zeros before and behind what it reads, of each dimension.
    """

    kernel: Array
    phases: int
    pads: list[tuple[int, int]]


def dense_convolutions(kernel: Array, axes: Sequence[Phases], group: int) -> list[Dense]:
    """One for all phases that read something, where each multiplies by as many elements; else one for each, in order.

    What has fewer elements is not filled up by zeros: a zero times NaN or infinity is NaN, where nothing is to be read.

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
    """A kernel ``(C, M / group, k..)`` as that of a dense convolution, ``(M strides.., C / group, taps..)``.

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
    """Dimensions of ``(N, M, strides.., groups..)`` as ``(N, M, group, stride, ..)``.

    Args:
        rank: Number of dimensions that are spread.
        is_joined: Whether the strides come before the channels instead, as where each phase was computed alone.

    Example:
        >>> spread_order(2, is_joined=False), spread_order(2, is_joined=True)
        ([0, 1, 4, 2, 5, 3], [0, 3, 4, 1, 5, 2])
    """
    channels, phases = (1 + rank, 1) if is_joined else (1, 2)
    return [0, channels, *(axis for d in range(rank) for axis in (2 + rank + d, phases + d))]
