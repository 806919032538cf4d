"""Positions along a line, as a map of a loop: in even steps, perhaps held back at both ends."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.normalise.types.scalars import Table

MOST_REPEATS = 64  # steps of a loop after which positions go on as before


@dataclass(frozen=True)
class IndexLine:
    """Positions ``(factor * loop + offset) // divisor`` from the `first` to the `last` step of a loop; clamped outside.

    Attributes:
        table: The position at every step.
        factor: See above.
        divisor: See above.
        offset: See above.
        first: The first step where that holds.
        last: The last one.
    """

    table: tuple[int, ...]
    factor: int
    divisor: int
    offset: int
    first: int
    last: int

    @property
    def is_held_back(self) -> bool:
        """Whether it stands still at an end."""
        return (self.first, self.last) != (0, len(self.table) - 1)

    @property
    def breaks(self) -> set[int]:
        """Steps where something else begins."""
        return {self.first, self.last + 1} - {0, len(self.table)}

    def within(self, start: int, length: int) -> bool:
        """Tell whether a map gives all positions of some steps."""
        return self.still(start, length) or (self.first <= start and start + length - 1 <= self.last)

    def still(self, start: int, length: int) -> bool:
        """Tell whether some steps lead to one position."""
        return len(set(self.table[start : start + length])) == 1

    def index_expr(self, loop: int, start: int, length: int, size: int) -> ir.AffineExpr:
        """The index of some steps, counted from the first of them; where it is held back, it wraps around `size`."""
        if self.still(start, length):
            return ir.AffineConstantExpr.get(self.table[start])
        moved = ir.AffineDimExpr.get(loop) * self.factor + (self.factor * start + self.offset)
        expr = ir.AffineExpr.get_floor_div(moved, self.divisor) if self.divisor > 1 else moved
        if self.within(start, length):
            return expr
        least = (self.factor * start + self.offset) // self.divisor
        return ir.AffineExpr.get_mod(expr + size * max(0, -(least // size)), size)


def line_of(table: Table) -> IndexLine | None:
    """The map of indices that a table holds; `None` if there is none."""
    indices = tuple(int(index) for index in table)
    if len(set(indices)) == 1:
        return IndexLine(indices, 0, 1, indices[0], 0, len(indices) - 1)
    best: IndexLine | None = None
    middle = len(indices) // 2
    for divisor in range(1, min(MOST_REPEATS, len(indices) - 1 - middle) + 1):
        found = stretch(indices, middle, divisor)
        if found is not None and (best is None or found.last - found.first > best.last - best.first):
            best = found
    if best is None or len(set(indices[: best.first])) > 1 or len(set(indices[best.last + 1 :])) > 1:
        return None
    return best


def stretch(indices: tuple[int, ...], middle: int, divisor: int) -> IndexLine | None:
    """The longest line about the middle that goes on as before after so many steps; `None` if it goes back."""
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
    """The least and the most offset with which a line leads to a position at a step."""
    least = divisor * indices[step] - factor * step
    return least, least + divisor - 1
