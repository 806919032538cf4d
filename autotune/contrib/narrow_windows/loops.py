"""How a convolution of channels that are side by side goes over its arrays, read from an op's maps."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.nests import indexing_maps, read_index
from autotune.core.ops.op import Terms


@dataclass(frozen=True)
class WindowLoops:
    """Indices of inputs ``(.., channels)``, of a kernel ``(.., channels, filters)`` and of results ``(.., filters)``.

    Attributes:
        of_x: Loops that the index of each dimension of the inputs moves with, and by how much.
        of_kernel: The loop of each dimension of the kernel.
        of_y: The loop of each dimension of the results; these are the parallel loops.
    """

    of_x: tuple[Terms, ...]
    of_kernel: tuple[int, ...]
    of_y: tuple[int, ...]

    @classmethod
    def of(cls, op: ir.Operation) -> "WindowLoops | None":
        """Those of an op; `None` if it goes otherwise."""
        if len(maps := indexing_maps(op)) != 3:
            return None
        indices = [[read_index(each) for each in amap.results] for amap in maps]
        if any(index.constant or index.parts for of_array in indices for index in of_array):
            return None
        of_x, of_kernel, of_y = (tuple(index.terms for index in of_array) for of_array in indices)
        if any(len(terms) != 1 or terms[0][1] != 1 for terms in (*of_kernel, *of_y)):
            return None
        found = cls(of_x, *(tuple(terms[0][0] for terms in each) for each in (of_kernel, of_y)))
        return found if found.is_of_channels else None

    @property
    def is_of_channels(self) -> bool:
        """Whether channels that are summed lie side by side, and so do filters, and rows share a kernel."""
        if len(self.of_kernel) < 2 or not self.rows:
            return False
        channel, lane = self.of_kernel[-2:]
        moving = [loop for terms in self.of_x[:-1] for loop, _ in terms]
        last = self.of_x[-1] == ((channel, 1),) and channel not in (*self.of_y, *moving)
        return last and lane == self.of_y[-1] and lane not in moving

    @property
    def rows(self) -> tuple[int, ...]:
        """Parallel loops that the kernel does not go along; the last is of the rows of a register tile."""
        return tuple(loop for loop in self.of_y if loop not in self.of_kernel)

    @property
    def moved_by_rows(self) -> list[int]:
        """Dimensions of the inputs along which rows of a register tile read different elements."""
        return [d for d, terms in enumerate(self.of_x[:-1]) if self.rows[-1] in dict(terms)]

    @property
    def taps(self) -> tuple[int, ...]:
        """Loops that sum, but that over channels."""
        return tuple(loop for loop in self.of_kernel[:-2] if loop not in self.of_y)

    @property
    def shared(self) -> list[int]:
        """Dimensions of the inputs along which a scale is shared: one register tile, of all its taps, has one."""
        among = {*self.taps, self.rows[-1]}
        return [d for d, terms in enumerate(self.of_x[:-1]) if any(loop in among for loop, _ in terms)]
