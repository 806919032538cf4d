"""Values as operations see them, and as they lie in memory.

Dimensions of size 1 are never stored: what has one, is given one or loses one is the same value, seen otherwise. So are
transposed and repeated values. What follows from its index alone (a number, a triangle) is a formula, computed in each
loop that reads it, where masks can be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.tensor.dtypes import is_float, storage_of
from autotune.tensor.graph import Node
from autotune.tensor.shapes import Shape

Loops = Sequence[int | None]  # the loop that runs along each dimension; `None` along one of size 1


@dataclass(frozen=True)
class Stored:
    """A value in memory.

    Attributes:
        name: Name of the value with its percent sign.
        shape: Sizes, outermost first.
        element: MLIR element type, as it is stored.
    """

    name: str
    shape: Shape
    element: str

    @property
    def type(self) -> str:
        """The MLIR type, such as ``tensor<32x64xf32>``."""
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"


@dataclass(frozen=True)
class Formula:
    """A value that follows from its index.

    Attributes:
        node: Operation that gives it.
        operands: Formulas that it reads.
        depth: Operations one on another.
    """

    node: Node
    operands: tuple["View", ...] = ()
    depth: int = 0

    @property
    def shape(self) -> Shape:
        """Sizes, outermost first."""
        return self.node.shape


@dataclass(frozen=True)
class View:
    """A value as operations see it.

    Attributes:
        node: Operation that it is the result of: its element type.
        source: Value or formula that elements come from.
        shape: Sizes, outermost first; along dimensions that `dims` lacks, elements are repeated.
        dims: Dimension of `shape` for each dimension of the source; `None` for one of size 1 that is gone.
    """

    node: Node
    source: Stored | Formula
    shape: Shape
    dims: tuple[int | None, ...]

    @property
    def in_order(self) -> bool:
        """Whether it is stored as it is seen, but for sizes of 1."""
        dims = tuple(d for d, size in enumerate(self.shape) if size != 1)
        return isinstance(self.source, Stored) and self.dims == dims

    @property
    def element(self) -> str:
        """How its elements are stored where they are computed: real numbers as f32."""
        return "f32" if is_float(self.node.dtype) else storage_of(self.node.dtype)


def seen(node: Node, stored: Stored, shape: Shape | None = None) -> View:
    """A value that lies as it is seen, by default in the shape of its node."""
    sizes = node.shape if shape is None else shape
    return View(node, stored, sizes, tuple(d for d, size in enumerate(sizes) if size != 1))


def squeezed(shape: Shape) -> Shape:
    """A shape without sizes of 1."""
    return tuple(size for size in shape if size != 1)


def loops_of(shape: Shape, order: Sequence[int] | None = None) -> list[int | None]:
    """A loop for each dimension that is not of size 1, numbered in an order of dimensions."""
    numbered = [d for d in (range(len(shape)) if order is None else order) if shape[d] != 1]
    return [numbered.index(d) if shape[d] != 1 else None for d in range(len(shape))]


def aligned(shape: Shape, loops: Loops) -> list[int | None]:
    """The loops along an operand that is broadcast to the dimensions that loops run along."""
    more = len(loops) - len(shape)
    return [None if size == 1 else loops[d + more] for d, size in enumerate(shape)]


def shared_runs(one: Shape, other: Shape) -> list[tuple[range, range]]:
    """Runs of dimensions of two shapes that hold as many elements, as short as can be."""
    runs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        start, begin, here, there = i, j, one[i], other[j]
        i, j = i + 1, j + 1
        while here != there:
            if here < there:
                here, i = here * one[i], i + 1
            else:
                there, j = there * other[j], j + 1
        runs.append((range(start, i), range(begin, j)))
    if runs:  # sizes of 1 that are left belong to the last run
        runs[-1] = (range(runs[-1][0].start, len(one)), range(runs[-1][1].start, len(other)))
    return runs
