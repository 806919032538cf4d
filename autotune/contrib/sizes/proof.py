"""Which dimensions may be padded, and which split: proved on the model itself, at random sizes and at all borders.

A request of n is padded to N by zeros at its end, and its results are cut: right only where nothing that is kept reads
what was added. A causal model and one whose mask covers the padding pass; a mean over tokens does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.contrib.sizes.bounds import Bounds, Sizes
from autotune.contrib.sizes.open_model import OpenInput, OpenModel
from autotune.core.payload import Array
from autotune.core.plugs.any_size import OpenDim

RANDOM = 6  # random sizes that are tried, besides the borders
Range = tuple[int, int]  # of whole numbers, the end exclusive
TRUTH = (0, 2)


@dataclass(frozen=True)
class Reals:
    """Numbers that real inputs are drawn from.

    Attributes:
        low, high: Bounds of the numbers.
        tolerance: Part of a result's largest value that two programs of f32 may differ by: they sum in another order.
    """

    low: float
    high: float
    tolerance: float


# Zeros of the padding are no largest among positive numbers, and no smallest among negative ones; large numbers pass
# bounds that a model compares with, and differ more in logits.
REALS = (Reals(-1, 1, 1e-4), Reals(-2, -1, 1e-4), Reals(1, 2, 1e-4), Reals(-20, 20, 1e-2))


@dataclass(frozen=True)
class Dim(OpenDim):
    """An open dimension, whose sizes are checked."""

    @property
    def bounds(self) -> Bounds:
        """Its bounds."""
        return Bounds(self.name, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Prover:
    """Tries what may be done to requests.

    Attributes:
        model: The model.
        bounds: Bounds of all open dimensions.
        ranges: Values that whole numbers may take, by input.
        rng: Draws sizes and values.
    """

    model: OpenModel
    bounds: tuple[Bounds, ...]
    ranges: Mapping[str, Range]
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def prove(self, bounds: Bounds) -> Dim:
        """What may be done along a dimension."""
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
        """What numbers are tried; one kind stands for all where no input is of real numbers."""
        return REALS if any(each.dtype.kind not in "iub" for each in self.model.inputs) else REALS[:1]

    def axes_of(self, bounds: Bounds) -> tuple[int | None, ...] | None:
        """Axis of each result that a dimension is; `None` where a result follows it in another way."""
        found = []
        least, next_ = self.sizes(bounds.name, bounds.low), self.sizes(bounds.name, min(bounds.low + 1, bounds.high))
        for before, after in zip(
            self.shapes(least), self.shapes({**least, bounds.name: next_[bounds.name]}), strict=True
        ):
            moved = [axis for axis, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
            if len(moved) > 1 or any(after[axis] != next_[bounds.name] for axis in moved):
                return None
            found.append(moved[0] if moved else None)
        return tuple(found)

    def shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """Shapes of the results at some sizes."""
        return [array.shape for array in self.model.run(self.draw(sizes))]

    def sizes(self, name: str, size: int) -> dict[str, int]:
        """A size of one dimension, the least of the others but for a random one."""
        found = {each.name: each.low for each in self.bounds}
        other = self.bounds[int(self.rng.integers(len(self.bounds)))]
        found[other.name] = min(other.high, other.low + int(self.rng.integers(3)))
        return {**found, name: size}

    def draw(self, sizes: Sizes, reals: Reals = REALS[0]) -> dict[str, Array]:
        """Random inputs: what is 0 or 1 holds a 1 in each of its lines."""
        found = {}
        for each in self.model.inputs:
            shape, whole = each.at(sizes), each.dtype.kind in "iub"
            low, high = self.ranges.get(each.name, TRUTH)
            array = self.rng.integers(low, high, shape) if whole else self.rng.uniform(reals.low, reals.high, shape)
            if whole and (low, high) == TRUTH and shape:
                for axis in each.axes.values():
                    np.put_along_axis(array, ones_at(self.rng, shape, axis), 1, axis)
            found[each.name] = np.asarray(array).astype(each.dtype)
        return found

    def paddings(self, bounds: Bounds) -> Iterator[tuple[int, int]]:
        """Sizes to pad, and to which: all borders, and random ones."""
        low, high = bounds.low, bounds.high
        yield from {(low, high), (high - 1, high), (low, low + 1)}
        for _ in range(RANDOM):
            n = int(self.rng.integers(low, high))
            yield n, int(self.rng.integers(n + 1, high + 1))

    def is_padded_right(
        self, dim: Dim, n: int, to: int, reals: Reals = REALS[0], changed: Mapping[str, Array] | None = None
    ) -> bool:
        """Tell whether a padded request gives what it gives as it is."""
        given = dict(changed or self.draw(self.sizes(dim.name, n), reals))
        padded = {each.name: pad(given[each.name], each, dim.name, to) for each in self.model.inputs}
        want, found = self.model.run(given), self.model.run(padded)
        kept = [cut(array, axis, 0, n) for array, axis in zip(found, dim.results, strict=True)]
        return all(agree(*pair, reals.tolerance) for pair in zip(kept, want, strict=True))

    def splits(self, dim: Dim) -> Iterator[tuple[int, int]]:
        """Requests to split, and behind how many."""
        yield from ((dim.high, dim.high - 1), (2, 1))
        for _ in range(RANDOM):
            n = int(self.rng.integers(2, dim.high + 1))
            yield n, int(self.rng.integers(1, n))

    def is_split_right(self, dim: Dim, n: int, first: int, reals: Reals = REALS[0]) -> bool:
        """Tell whether a request in two parts gives what it gives as one."""
        given = self.draw(self.sizes(dim.name, n), reals)
        parts = []
        for start, end in ((0, first), (first, n)):
            part = {each.name: cut(given[each.name], each.axes.get(dim.name), start, end) for each in self.model.inputs}
            parts.append(self.model.run(part))
        whole = self.model.run(given)
        joined = [np.concatenate(pair, axis or 0) for *pair, axis in zip(*parts, dim.results, strict=True)]
        return all(agree(*pair, reals.tolerance) for pair in zip(joined, whole, strict=True))

    def masks(self, dim: Dim) -> list[OpenInput]:
        """Inputs of 0 and 1 along a dimension."""
        return [
            each
            for each in self.model.inputs
            if dim.name in each.axes and each.dtype.kind in "iub" and self.ranges.get(each.name, TRUTH) == TRUTH
        ]

    def stands_zeros(self, dim: Dim, mask: OpenInput) -> bool:
        """Tell whether padding is right where an input holds zeros alone."""
        n = (dim.low + dim.high) // 2
        given = self.draw(self.sizes(dim.name, n))
        return self.is_padded_right(dim, n, dim.high, changed={**given, mask.name: np.zeros_like(given[mask.name])})


def ones_at(rng: np.random.Generator, shape: Sequence[int], axis: int) -> Array:
    """A position along an axis for each line of a shape."""
    lines = [1 if number == axis else size for number, size in enumerate(shape)]
    return rng.integers(0, shape[axis], lines)


def pad(array: Array, each: OpenInput, name: str, to: int) -> Array:
    """An input with zeros behind it along a dimension, as long as that is to be."""
    if name not in each.axes:
        return array
    widths = [(0, to - size) if axis == each.axes[name] else (0, 0) for axis, size in enumerate(array.shape)]
    return np.pad(array, widths)


def cut(array: Array, axis: int | None, start: int, end: int) -> Array:
    """Part of an array along an axis; all of it where there is none."""
    if axis is None:
        return array
    return array[(slice(None),) * axis + (slice(start, end),)]


def agree(found: Array, want: Array, tolerance: float) -> bool:
    """Tell whether two results are the same but for the order of sums."""
    if found.shape != want.shape:
        return False
    if want.dtype.kind not in "fV":
        return bool(np.array_equal(found, want))
    known = np.isfinite(want)
    largest = float(np.abs(want[known]).max()) if known.any() else 0.0
    return bool(np.allclose(found, want, rtol=0, atol=tolerance * max(largest, 1e-30), equal_nan=True))
