"""Distribution of a value over the cores of a region: one dimension over rows of cores, another over columns.

    rows     the first axis: the cores of a column of the grid lie along it
    columns  the second

A value without a dimension distributed over an axis is replicated along it.
"""

from dataclasses import dataclass

AXES = (0, 1)


@dataclass(frozen=True)
class Layout:
    """Distribution of a value over a region.

    Attributes:
        dims: Dimension distributed over rows of cores, and over columns; `None` where the value is replicated.
        parts: Number of parts along each axis, at most its number of cores.
    """

    dims: tuple[int | None, int | None] = (None, None)
    parts: tuple[int, int] = (1, 1)


NOWHERE = Layout()


@dataclass(frozen=True)
class Spread:
    """Distribution of an op: the loops that are distributed over rows and over columns of cores; `None` for none.

    Attributes:
        loops: Loop for each axis.
    """

    loops: tuple[int | None, int | None]

    def local(self, sizes: tuple[int, ...], region: tuple[int, int]) -> tuple[int, ...]:
        """Return the trip counts of the core with the most work."""
        trips = list(sizes)
        for loop, cores in zip(self.loops, region, strict=True):
            if loop is not None:
                trips[loop] = -(-sizes[loop] // cores)
        return tuple(trips)

    def parts(self, sizes: tuple[int, ...], region: tuple[int, int]) -> tuple[int, int]:
        """Return the number of parts along each axis, that is, of cores with work of their own."""
        local = self.local(sizes, region)
        first, second = (1 if loop is None else -(-sizes[loop] // local[loop]) for loop in self.loops)
        return first, second


def dimension_of(indices: tuple[tuple[tuple[int, int], ...], ...], loop: int | None) -> int | None:
    """Return the dimension of an array that a loop indexes; `None` where the array is invariant in the loop."""
    if loop is None:
        return None
    return next((dim for dim, terms in enumerate(indices) if any(each == loop for each, _ in terms)), None)
