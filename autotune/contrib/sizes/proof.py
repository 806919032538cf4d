"""Tests of a model at random sizes and at all borders for which dimensions may be padded, and which split.

A request of size n is padded with zeros at its end to size N, and its results are cut to n. That is correct only if no
kept result depends on the padding: true of a causal model or one whose mask covers the padding, false of a mean over
tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.contrib.sizes.bounds import Bounds, Sizes
from autotune.contrib.sizes.open_model import OpenInput, OpenModel
from autotune.core.payload import Array
from autotune.core.plugs.any_size import OpenDim

RANDOM = 6  # random sizes that are tried in addition to the borders
Range = tuple[int, int]  # of integers, end exclusive
TRUTH = (0, 2)


@dataclass(frozen=True)
class Reals:
    """Distribution of real inputs.

    Attributes:
        low, high: Bounds of the values.
        tolerance: Difference of two f32 programs, relative to a result's largest value, that the order of sums may
            cause.
    """

    low: float
    high: float
    tolerance: float


# With positive numbers padding zeros are never the largest, with negative ones never the smallest; large numbers cross
# thresholds of a model, and their logits differ more.
REALS = (Reals(-1, 1, 1e-4), Reals(-2, -1, 1e-4), Reals(1, 2, 1e-4), Reals(-20, 20, 1e-2))


@dataclass(frozen=True)
class Dim(OpenDim):
    """An open dimension with bounds checks."""

    @property
    def bounds(self) -> Bounds:
        """Bounds of the dimension."""
        return Bounds(self.name, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Prover:
    """Tester of what may be done with requests.

    Attributes:
        model: The model.
        bounds: Bounds of all open dimensions.
        ranges: Ranges of integer inputs, by name.
        rng: Generator of sizes and values.
    """

    model: OpenModel
    bounds: tuple[Bounds, ...]
    ranges: Mapping[str, Range]
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def prove(self, bounds: Bounds) -> Dim:
        """Return a dimension with what may be done along it."""
        results = self.axes_of(bounds)
        if results is None or bounds.low == bounds.high:
            return Dim(bounds.name, bounds.low, bounds.high, results=results or ())
        dim = Dim(bounds.name, bounds.low, bounds.high, results=results)
        pad = all(self.is_padded_right(dim, *each, reals) for reals in self.reals for each in self.paddings(bounds))
        split = None not in results and bounds.low == 1
        for reals in self.reals:
            split = split and all(self.is_split_right(dim, *each, reals) for each in self.splits(dim))
        masks = tuple(each.name for each in self.masks(dim) if not self.stands_zeros(dim, each)) if pad else ()
        return Dim(bounds.name, bounds.low, bounds.high, pad, split, results, masks)

    @property
    def reals(self) -> tuple[Reals, ...]:
        """Distributions to try; one suffices if no input is of real numbers."""
        return REALS if any(each.dtype.kind not in "iub" for each in self.model.inputs) else REALS[:1]

    def axes_of(self, bounds: Bounds) -> tuple[int | None, ...] | None:
        """Return each result's axis of a dimension, `None` if absent; `None` if a result depends on it otherwise."""
        axes = []
        least, next_ = self.sizes(bounds.name, bounds.low), self.sizes(bounds.name, min(bounds.low + 1, bounds.high))
        for before, after in zip(
            self.shapes(least), self.shapes({**least, bounds.name: next_[bounds.name]}), strict=True
        ):
            moved = [axis for axis, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
            if len(moved) > 1 or any(after[axis] != next_[bounds.name] for axis in moved):
                return None
            axes.append(moved[0] if moved else None)
        return tuple(axes)

    def shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """Return the shapes of the results at given sizes."""
        return [array.shape for array in self.model.run(self.draw(sizes))]

    def sizes(self, name: str, size: int) -> dict[str, int]:
        """Return sizes with the given one of a dimension, and the minimum of all others but a random one."""
        sizes = {each.name: each.low for each in self.bounds}
        varied = self.bounds[int(self.rng.integers(len(self.bounds)))]
        sizes[varied.name] = min(varied.high, varied.low + int(self.rng.integers(3)))
        return {**sizes, name: size}

    def draw(self, sizes: Sizes, reals: Reals = REALS[0]) -> dict[str, Array]:
        """Return random inputs; a mask of 0 and 1 has a 1 in each of its lines."""
        inputs = {}
        for each in self.model.inputs:
            shape, is_integer = each.at(sizes), each.dtype.kind in "iub"
            low, high = self.ranges.get(each.name, TRUTH)
            array = (
                self.rng.integers(low, high, shape) if is_integer else self.rng.uniform(reals.low, reals.high, shape)
            )
            if is_integer and (low, high) == TRUTH and shape:
                for axis in each.axes.values():
                    np.put_along_axis(array, ones_at(self.rng, shape, axis), 1, axis)
            inputs[each.name] = np.asarray(array).astype(each.dtype)
        return inputs

    def paddings(self, bounds: Bounds) -> Iterator[tuple[int, int]]:
        """Yield sizes and what to pad them to: all borders, and random ones."""
        low, high = bounds.low, bounds.high
        yield from {(low, high), (high - 1, high), (low, low + 1)}
        for _ in range(RANDOM):
            n = int(self.rng.integers(low, high))
            yield n, int(self.rng.integers(n + 1, high + 1))

    def is_padded_right(
        self, dim: Dim, n: int, to: int, reals: Reals = REALS[0], changed: Mapping[str, Array] | None = None
    ) -> bool:
        """Return whether a padded request has the same results as the unpadded one."""
        inputs = dict(changed or self.draw(self.sizes(dim.name, n), reals))
        padded = {each.name: pad(inputs[each.name], each, dim.name, to) for each in self.model.inputs}
        expected, results = self.model.run(inputs), self.model.run(padded)
        unpadded = [cut(array, axis, 0, n) for array, axis in zip(results, dim.results, strict=True)]
        return all(agree(*pair, reals.tolerance) for pair in zip(unpadded, expected, strict=True))

    def splits(self, dim: Dim) -> Iterator[tuple[int, int]]:
        """Yield sizes of requests and where to split them."""
        yield from ((dim.high, dim.high - 1), (2, 1))
        for _ in range(RANDOM):
            n = int(self.rng.integers(2, dim.high + 1))
            yield n, int(self.rng.integers(1, n))

    def is_split_right(self, dim: Dim, n: int, first: int, reals: Reals = REALS[0]) -> bool:
        """Return whether a request computed in two parts has the same results as in one."""
        inputs = self.draw(self.sizes(dim.name, n), reals)
        parts = []
        for start, end in ((0, first), (first, n)):
            part = {
                each.name: cut(inputs[each.name], each.axes.get(dim.name), start, end) for each in self.model.inputs
            }
            parts.append(self.model.run(part))
        whole = self.model.run(inputs)
        joined = [np.concatenate(pair, axis or 0) for *pair, axis in zip(*parts, dim.results, strict=True)]
        return all(agree(*pair, reals.tolerance) for pair in zip(joined, whole, strict=True))

    def masks(self, dim: Dim) -> list[OpenInput]:
        """Return the inputs of 0 and 1 along a dimension."""
        return [
            each
            for each in self.model.inputs
            if dim.name in each.axes and each.dtype.kind in "iub" and self.ranges.get(each.name, TRUTH) == TRUTH
        ]

    def stands_zeros(self, dim: Dim, mask: OpenInput) -> bool:
        """Return whether padding is correct even if a mask is all zeros."""
        n = (dim.low + dim.high) // 2
        inputs = self.draw(self.sizes(dim.name, n))
        return self.is_padded_right(dim, n, dim.high, changed={**inputs, mask.name: np.zeros_like(inputs[mask.name])})


def ones_at(rng: np.random.Generator, shape: Sequence[int], axis: int) -> Array:
    """Return a random position along an axis for each line of a shape."""
    lines = [1 if number == axis else size for number, size in enumerate(shape)]
    return rng.integers(0, shape[axis], lines)


def pad(array: Array, each: OpenInput, name: str, to: int) -> Array:
    """Pad an input with zeros along a dimension to a size."""
    if name not in each.axes:
        return array
    widths = [(0, to - size) if axis == each.axes[name] else (0, 0) for axis, size in enumerate(array.shape)]
    return np.pad(array, widths)


def cut(array: Array, axis: int | None, start: int, end: int) -> Array:
    """Return a slice of an array along an axis; all of it without an axis."""
    if axis is None:
        return array
    return array[(slice(None),) * axis + (slice(start, end),)]


def agree(result: Array, want: Array, tolerance: float) -> bool:
    """Return whether two results are equal up to the order of sums."""
    if result.shape != want.shape:
        return False
    if want.dtype.kind not in "fV":
        return bool(np.array_equal(result, want))
    finite = np.isfinite(want)
    largest = float(np.abs(want[finite]).max()) if finite.any() else 0.0
    return bool(np.allclose(result, want, rtol=0, atol=tolerance * max(largest, 1e-30), equal_nan=True))
