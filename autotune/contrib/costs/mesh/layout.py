"""Which core of a region holds which part of a value: a dimension is spread over rows of cores, another over columns.

    rows     the first axis: the cores of a column of the grid lie along it
    columns  the second

A value that no dimension of is spread over an axis is held by every core along it.
"""

from dataclasses import dataclass

AXES = (0, 1)


@dataclass(frozen=True)
class Layout:
    """How a value lies on a region.

    Attributes:
        dims: Dimension that is spread over rows of cores, and that over columns; `None` where all hold the same.
        parts: Parts along each axis, at most its cores.
    """

    dims: tuple[int | None, int | None] = (None, None)
    parts: tuple[int, int] = (1, 1)


NOWHERE = Layout()


@dataclass(frozen=True)
class Spread:
    """How an op is spread: the loop that the rows of cores share, and that of the columns; `None` for none.

    Attributes:
        loops: A loop for each axis.
    """

    loops: tuple[int | None, int | None]

    def local(self, sizes: tuple[int, ...], region: tuple[int, int]) -> tuple[int, ...]:
        """Trip counts of the core that has most to do."""
        found = list(sizes)
        for loop, cores in zip(self.loops, region, strict=True):
            if loop is not None:
                found[loop] = -(-sizes[loop] // cores)
        return tuple(found)

    def parts(self, sizes: tuple[int, ...], region: tuple[int, int]) -> tuple[int, int]:
        """Cores along each axis that have something of their own to do."""
        local = self.local(sizes, region)
        first, second = (1 if loop is None else -(-sizes[loop] // local[loop]) for loop in self.loops)
        return first, second


def dimension_of(indices: tuple[tuple[tuple[int, int], ...], ...], loop: int | None) -> int | None:
    """The dimension of an array that a loop runs along; `None` where it does not matter to the array."""
    if loop is None:
        return None
    return next((dim for dim, terms in enumerate(indices) if any(each == loop for each, _ in terms)), None)
