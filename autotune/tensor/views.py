"""Views: the logical shape of a value and its mapping to the stored value.

Dimensions of size 1 are never stored: adding or removing one changes the view only, as do transposition and
broadcasting. A value that depends on its index only (a constant, a triangular mask) is a formula. It is computed in
each loop that reads it, where passes can recognize masks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.tensor.dtypes import is_float, storage_of
from autotune.tensor.graph import Node
from autotune.tensor.shapes import Shape

Loops = Sequence[int | None]  # the loop that indexes each dimension; `None` for a dimension of size 1


@dataclass(frozen=True)
class Stored:
    """A stored value: a tensor without dimensions of size 1.

    Attributes:
        name: SSA name, with its percent sign.
        shape: Sizes, outermost first.
        element: MLIR element type in memory.
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
    """A value that is computed from its index where it is read.

    Attributes:
        node: Operation that defines it.
        operands: Views of its operands.
        depth: Nesting depth of formulas.
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
    """A logical view of a stored value or a formula.

    Attributes:
        node: Node whose element type the view has.
        source: Stored value or formula of its elements.
        shape: Sizes, outermost first; along dimensions that `dims` lacks, elements are broadcast.
        dims: Dimension of `shape` for each dimension of the source; `None` for a dropped one of size 1.
    """

    node: Node
    source: Stored | Formula
    shape: Shape
    dims: tuple[int | None, ...]

    @property
    def in_order(self) -> bool:
        """Whether the source is stored in the order of the view, up to dimensions of size 1."""
        dims = tuple(d for d, size in enumerate(self.shape) if size != 1)
        return isinstance(self.source, Stored) and self.dims == dims

    @property
    def element(self) -> str:
        """MLIR element type that computed elements are stored with: f32 for real numbers."""
        return "f32" if is_float(self.node.dtype) else storage_of(self.node.dtype)


def seen(node: Node, stored: Stored, shape: Shape | None = None) -> View:
    """Return the view of a value that is stored in order, by default with the shape of its node."""
    sizes = node.shape if shape is None else shape
    return View(node, stored, sizes, tuple(d for d, size in enumerate(sizes) if size != 1))


def squeezed(shape: Shape) -> Shape:
    """Remove the dimensions of size 1 from a shape."""
    return tuple(size for size in shape if size != 1)


def loops_of(shape: Shape, order: Sequence[int] | None = None) -> list[int | None]:
    """Assign a loop to each dimension that is not of size 1, numbered in the given order of dimensions."""
    numbered = [d for d in (range(len(shape)) if order is None else order) if shape[d] != 1]
    return [numbered.index(d) if shape[d] != 1 else None for d in range(len(shape))]


def aligned(shape: Shape, loops: Loops) -> list[int | None]:
    """Return the loops that index an operand that is broadcast to the iteration space."""
    more = len(loops) - len(shape)
    return [None if size == 1 else loops[d + more] for d, size in enumerate(shape)]


def shared_runs(one: Shape, other: Shape) -> list[tuple[range, range]]:
    """Split two shapes into minimal runs of dimensions of equal element counts, as reassociation groups.

    Return pairs of dimension ranges, of the first and of the second shape.
    """
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
    if runs:  # trailing sizes of 1 belong to the last run
        runs[-1] = (range(runs[-1][0].start, len(one)), range(runs[-1][1].start, len(other)))
    return runs
