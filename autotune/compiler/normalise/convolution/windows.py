"""Sliding windows of convolutions and pools, and helpers for kernels, strides and biases."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker, permutation_of
from autotune.compiler.normalise.emit import dims, generic, permuted

# Permutations by rank: of an image from (n, c, h, w) to (n, h, w, c) and back, of a kernel from (f, c, i, j) to
# (i, j, c, f) and back; likewise of volumes.
LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
BACK = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
KERNEL = {4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}
KERNEL_BACK = {4: (3, 2, 0, 1), 5: (4, 3, 0, 1, 2)}


@dataclass(frozen=True)
class WindowAxis:
    """Sliding windows along one dimension.

    Attributes:
        size: Size of the input, without padding.
        windows: Number of windows.
        side: Number of taps of a window.
        stride: Distance between consecutive windows.
        dilation: Distance between consecutive taps.
        before: Low padding of the input; negative if windows begin inside of the input.
    """

    size: int
    windows: int
    side: int
    stride: int
    dilation: int
    before: int

    def first(self, index: int) -> int:
        """Return the input position of a tap of the first window; negative if it is in the low padding."""
        return self.dilation * index - self.before

    def inside(self, window: int) -> tuple[int, ...]:
        """Return the taps of a window that are inside of the input."""
        return tuple(p for p in range(self.side) if 0 <= self.stride * window + self.first(p) < self.size)

    def reaches(self, index: int) -> bool:
        """Return whether some window has a tap inside of the input."""
        return any(index in self.inside(window) for window in range(self.windows))

    @property
    def leaves(self) -> bool:
        """Whether a window extends beyond the input."""
        return any(len(self.inside(window)) < self.side for window in range(self.windows))

    def kinds(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield runs of windows with the same taps inside of the input: first window, count, and taps."""
        for taps, run in groupby(range(self.windows), self.inside):
            windows = list(run)
            yield windows[0], len(windows), taps

    def strips(self, most: int, lanes: int) -> list[tuple[int, int]]:
        """Divide windows into pieces, as first window and count, so that pieces that extend beyond the input are short.

        Args:
            most: Number of windows up to which they are one piece.
            lanes: Number of which the size of the first piece is a multiple.
        """
        if self.windows <= most or not self.leaves:
            return [(0, self.windows)]
        inside = [window for window in range(self.windows) if len(self.inside(window)) == self.side]
        if not inside:
            return [(0, self.windows)]
        begin, end = -(-inside[0] // lanes) * lanes, inside[-1] + 1
        if begin >= end:
            return [(0, self.windows)]
        ends = [0, begin, end, self.windows]
        return [(a, b - a) for a, b in pairwise(ends) if b > a]

    def part(self, begin: int, windows: int) -> "WindowAxis":
        """Return a contiguous part of the windows."""
        return replace(self, windows=windows, before=self.before - self.stride * begin)

    def whole(self) -> "WindowAxis":
        """Return windows of one tap that read the input as it is."""
        return WindowAxis(self.size, self.size, 1, 1, 1, 0)


def steps_of(op: ir.Operation, name: str) -> tuple[int, ...]:
    """Return the strides or dilations of a named convolution or pool, by name of the attribute; 1 each by default."""
    if name not in op.attributes:
        return (1,) * (len(op.results[0].type.shape) - 2)
    return tuple(map(int, ir.DenseIntElementsAttr(op.attributes[name])))


def attributes_of_steps(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the strides and dilations of a named convolution or pool, as attributes for another one."""
    return step_attributes(steps_of(op, "strides"), steps_of(op, "dilations"))


def step_attributes(strides: Sequence[int], dilations: Sequence[int]) -> dict[str, ir.Attribute]:
    """Return strides and dilations as attributes of a named convolution or pool."""
    values = {"strides": list(strides), "dilations": list(dilations)}
    return {name: ir.Attribute.parse(f"dense<{steps}> : tensor<{len(steps)}xi64>") for name, steps in values.items()}


def last_of(kernel: ir.Value) -> ir.Value:
    """Transpose a kernel from (f, c, i, j) to (i, j, c, f), or return the source if it is the inverse transpose."""
    before = before_transpose(kernel, KERNEL_BACK[kernel.type.rank])
    return before if before is not None else permuted(kernel, KERNEL[kernel.type.rank])


def before_transpose(value: ir.Value, order: Sequence[int]) -> ir.Value | None:
    """Return the source of a transpose with the given permutation; `None` if the value is not one."""
    producer = maker(value)
    return producer.operands[0] if producer is not None and permutation_of(producer) == list(order) else None


def bias_of(value: ir.Value) -> ir.Value | None:
    """Return the vector that a tensor, or the source of its copy, broadcasts along channels; `None` if it does not."""
    producer = maker(value)
    if producer is not None and producer.name == "bufferization.alloc_tensor" and len(producer.operands) == 1:
        producer = maker(producer.operands[0])  # a copy of an initial value that several convolutions share
    if producer is None or producer.name not in ("linalg.broadcast", "linalg.generic") or not moves_elements(producer):
        return None
    read, written = map(dimensions, indexing_maps(producer))
    return producer.operands[0] if written == list(range(len(written))) and read == [1] else None


def with_bias(value: ir.Value, bias: ir.Value, axis: int) -> ir.Value:
    """Build the sum of a tensor and a vector that is broadcast along an axis."""
    result_type = value.type
    loops = dims(result_type.rank)
    maps = [ir.AffineMap.get(result_type.rank, 0, read) for read in (loops, [loops[axis]], loops)]
    into = tensor.empty(result_type.shape, result_type.element_type)
    return generic([value, bias], into, maps, ["parallel"] * result_type.rank, lambda a, b, _: arith.addf(a, b))
