"""Windows of convolutions and pools, and convolutions with channels last."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from mlir import ir
from mlir.dialects import arith, tensor

from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import maker, permutation_of
from autotune.compiler.normalise.emit import dims, generic, permuted

KERNEL = (2, 3, 1, 0)  # of (f, c, i, j): its order in (i, j, c, f)
KERNEL_BACK = (3, 2, 0, 1)


@dataclass(frozen=True)
class WindowAxis:
    """Windows along one dimension.

    Attributes:
        size: Positions of what is read.
        windows: Number of windows.
        side: Positions of a window.
        stride: Positions between one window and the next.
        dilation: Positions between neighbours in a window.
        before: Positions that are added in front of what is read, by a pad; less than 0 where windows begin later.
    """

    size: int
    windows: int
    side: int
    stride: int
    dilation: int
    before: int

    def first(self, index: int) -> int:
        """Where the first window has one of its positions; less than 0 if in front of what is read."""
        return self.dilation * index - self.before

    def inside(self, window: int) -> tuple[int, ...]:
        """Positions of a window that lie in what is read."""
        return tuple(p for p in range(self.side) if 0 <= self.stride * window + self.first(p) < self.size)

    def reaches(self, index: int) -> bool:
        """Tell whether some window has this position of it inside."""
        return any(index in self.inside(window) for window in range(self.windows))

    @property
    def leaves(self) -> bool:
        """Whether a window leaves what is read."""
        return any(len(self.inside(window)) < self.side for window in range(self.windows))

    def kinds(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Neighbouring windows with the same taps inside: the first, how many, and these taps."""
        for taps, found in groupby(range(self.windows), self.inside):
            windows = list(found)
            yield windows[0], len(windows), taps

    def strips(self, most: int, lanes: int) -> list[tuple[int, int]]:
        """Neighbouring windows as pieces, the first and how many, of which those that leave what is read are short.

        Args:
            most: Windows of a piece that may leave it; fewer are one piece.
            lanes: What the first piece is a multiple of.
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
        """Some of the windows."""
        return replace(self, windows=windows, before=self.before - self.stride * begin)

    def whole(self) -> "WindowAxis":
        """Windows of one position, which this one's do not go along: all that is read, as it is."""
        return WindowAxis(self.size, self.size, 1, 1, 1, 0)


def steps_of(op: ir.Operation, name: str) -> tuple[int, ...]:
    """Numbers along the positions of a named convolution or pool that it has as an attribute; 1 each by default."""
    if name not in op.attributes:
        return (1,) * (len(op.results[0].type.shape) - 2)
    return tuple(map(int, ir.DenseIntElementsAttr(op.attributes[name])))


def attributes_of_steps(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Strides and dilations of a named convolution or pool, as attributes of another."""
    found = {name: list(steps_of(op, name)) for name in ("strides", "dilations")}
    return {name: ir.Attribute.parse(f"dense<{steps}> : tensor<{len(steps)}xi64>") for name, steps in found.items()}


def last_of(kernel: ir.Value) -> ir.Value:
    """A kernel (f, c, i, j) as (i, j, c, f); where it was made of such, that."""
    before = before_transpose(kernel, KERNEL_BACK)
    return before if before is not None else permuted(kernel, KERNEL)


def before_transpose(value: ir.Value, order: Sequence[int]) -> ir.Value | None:
    """What a transpose of this order made a tensor of; `None` where none did."""
    made_by = maker(value)
    return made_by.operands[0] if made_by is not None and permutation_of(made_by) == list(order) else None


def bias_of(value: ir.Value) -> ir.Value | None:
    """The vector by channel that a tensor, or what it is a copy of, repeats everywhere; `None` if it is none."""
    made_by = maker(value)
    if made_by is not None and made_by.name == "bufferization.alloc_tensor" and len(made_by.operands) == 1:
        made_by = maker(made_by.operands[0])  # of one that several convolutions start from
    if made_by is None or made_by.name not in ("linalg.broadcast", "linalg.generic") or not moves_elements(made_by):
        return None
    read, written = map(dimensions, indexing_maps(made_by))
    return made_by.operands[0] if written == list(range(len(written))) and read == [1] else None


def with_bias(value: ir.Value, bias: ir.Value, axis: int) -> ir.Value:
    """A tensor, and to each element the number of a vector added that stands at its position along an axis."""
    kind = value.type
    loops = dims(kind.rank)
    maps = [ir.AffineMap.get(kind.rank, 0, read) for read in (loops, [loops[axis]], loops)]
    into = tensor.empty(kind.shape, kind.element_type)
    return generic([value, bias], into, maps, ["parallel"] * kind.rank, lambda a, b, _: arith.addf(a, b))
