"""Fit a table of indices by an affine function of a loop, possibly clamped at both ends."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.normalise.types.scalars import Table

MOST_REPEATS = 64  # largest divisor that is tried


@dataclass(frozen=True)
class IndexLine:
    """Index ``(factor * loop + offset) // divisor`` for iterations from `first` to `last`; constant outside.

    Attributes:
        table: Index in every iteration.
        factor: Factor of the loop.
        divisor: Divisor of the floor division.
        offset: Offset before the division.
        first: First iteration in which the formula holds.
        last: Last iteration in which the formula holds.
    """

    table: tuple[int, ...]
    factor: int
    divisor: int
    offset: int
    first: int
    last: int

    @property
    def is_clamped(self) -> bool:
        """Whether the index is clamped at an end."""
        return (self.first, self.last) != (0, len(self.table) - 1)

    @property
    def breaks(self) -> set[int]:
        """Iterations at which the index changes between clamped and affine."""
        return {self.first, self.last + 1} - {0, len(self.table)}

    def within(self, start: int, length: int) -> bool:
        """Return whether one affine expression holds for all iterations of a range."""
        return self.still(start, length) or (self.first <= start and start + length - 1 <= self.last)

    def still(self, start: int, length: int) -> bool:
        """Return whether the index is the same in all iterations of a range."""
        return len(set(self.table[start : start + length])) == 1

    def index_expr(self, loop: int, start: int, length: int, size: int) -> ir.AffineExpr:
        """Return the index for a range of iterations, relative to `start`; if it is clamped, it wraps around `size`."""
        if self.still(start, length):
            return ir.AffineConstantExpr.get(self.table[start])
        moved = ir.AffineDimExpr.get(loop) * self.factor + (self.factor * start + self.offset)
        expr = ir.AffineExpr.get_floor_div(moved, self.divisor) if self.divisor > 1 else moved
        if self.within(start, length):
            return expr
        least = (self.factor * start + self.offset) // self.divisor
        return ir.AffineExpr.get_mod(expr + size * max(0, -(least // size)), size)


def line_of(table: Table) -> IndexLine | None:
    """Fit a table of indices; return `None` if no function of this form fits."""
    indices = tuple(int(index) for index in table)
    if len(set(indices)) == 1:
        return IndexLine(indices, 0, 1, indices[0], 0, len(indices) - 1)
    best: IndexLine | None = None
    middle = len(indices) // 2
    for divisor in range(1, min(MOST_REPEATS, len(indices) - 1 - middle) + 1):
        candidate = stretch(indices, middle, divisor)
        if candidate is not None and (best is None or candidate.last - candidate.first > best.last - best.first):
            best = candidate
    if best is None or len(set(indices[: best.first])) > 1 or len(set(indices[best.last + 1 :])) > 1:
        return None
    return best


def stretch(indices: tuple[int, ...], middle: int, divisor: int) -> IndexLine | None:
    """Return the longest fit around the middle with a given divisor; `None` if the index decreases.

    The range is extended in both directions as long as the intervals of possible offsets intersect.
    """
    factor = indices[middle + divisor] - indices[middle]
    if factor < 0:
        return None
    low, high = offsets(indices, middle, factor, divisor)
    ends = [middle, middle]
    for side, step in ((1, 1), (0, -1)):
        while 0 <= (following := ends[side] + step) < len(indices):
            least, most = offsets(indices, following, factor, divisor)
            if max(low, least) > min(high, most):
                break
            low, high = max(low, least), min(high, most)
            ends[side] = following
    return IndexLine(indices, factor, divisor, low, *ends)


def offsets(indices: tuple[int, ...], step: int, factor: int, divisor: int) -> tuple[int, int]:
    """Return the smallest and largest offset for which the formula yields the index of an iteration."""
    least = divisor * indices[step] - factor * step
    return least, least + divisor - 1
