"""Phases of a transposed convolution's stride: its kernel as that of a dense one, a channel for each phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class Phases:
    """One dimension of a transposed convolution.

    Attributes:
        stride: Places of the result for one of what is read.
        taps: Elements of the kernel that a phase multiplies by, at most.
        first: First group of a place for each phase that the result has a part of.
        pads: Zeros before and behind what is read, of the dense convolution.
        skipped: Places of the first group that are no part of the result.
        size: Places of the result.
    """

    stride: int
    taps: int
    first: int
    pads: tuple[int, int]
    skipped: int
    size: int

    @property
    def groups(self) -> int:
        """Groups of places."""
        return -(-(self.skipped + self.size) // self.stride)


def phases_of(given: int, kernel: int, stride: int, pads: Sequence[int], more: int) -> Phases | None:
    """The phases of a dimension; `None` where the dense convolution would not read all of its input.

    Args:
        given: Places of what is read.
        kernel: Elements of the kernel.
        stride: Places of the result for one of what is read.
        pads: Places that are cut off before and behind.
        more: Places that are added behind.

    Example:
        >>> phases_of(5, 3, 2, (0, 0), 0)
        Phases(stride=2, taps=2, first=0, pads=(1, 1), skipped=0, size=11)
        >>> phases_of(5, 2, 2, (3, 3), 0) is None
        True
    """
    taps = -(-kernel // stride)
    size = (given - 1) * stride + kernel + more - sum(pads)
    first, last = pads[0] // stride, (pads[0] + size - 1) // stride
    around = (taps - 1 - first, last - given + 1)
    if min(around) < 0 or last > given + taps - 2:
        return None
    return Phases(stride, taps, first, around, pads[0] - stride * first, size)


def arranged(kernel: Array, axes: Sequence[Phases], group: int) -> Array:
    """A kernel ``(C, M / group, k..)`` as that of a dense convolution, ``(M s.., C / group, taps..)``.

    Example:
        >>> arranged(np.array([[[1, 2, 3]]]), [Phases(2, 2, 0, (1, 1), 0, 11)], 1)[:, 0]
        array([[3, 1],
               [0, 2]])
    """
    channels, made, *sides = kernel.shape
    wide = [(0, axis.stride * axis.taps - side) for axis, side in zip(axes, sides, strict=True)]
    rank = len(axes)
    apart = np.pad(kernel, [(0, 0), (0, 0), *wide]).reshape(
        group, channels // group, made, *(size for axis in axes for size in (axis.taps, axis.stride))
    )
    taps, strides = [3 + 2 * d for d in range(rank)], [4 + 2 * d for d in range(rank)]
    turned = np.flip(apart, tuple(taps)).transpose(0, 2, *strides, 1, *taps)
    phases = prod(axis.stride for axis in axes)
    return np.ascontiguousarray(turned.reshape(group * made * phases, channels // group, *(axis.taps for axis in axes)))
