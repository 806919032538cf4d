"""Loops of a convolution with contiguous channels, analysed from an op's indexing maps."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.nests import indexing_maps, read_index
from autotune.core.ops.op import Terms


@dataclass(frozen=True)
class WindowLoops:
    """Loops that index inputs ``(.., channels)``, a kernel ``(.., channels, filters)`` and results ``(.., filters)``.

    Attributes:
        of_x: Loops and their coefficients in the index of each dimension of the inputs.
        of_kernel: Loop of each dimension of the kernel.
        of_y: Loop of each dimension of the results; these are the parallel loops.
    """

    of_x: tuple[Terms, ...]
    of_kernel: tuple[int, ...]
    of_y: tuple[int, ...]

    @classmethod
    def of(cls, op: ir.Operation) -> "WindowLoops | None":
        """Analyse an op; return `None` if it is not such a convolution."""
        if len(maps := indexing_maps(op)) != 3:
            return None
        indices = [[read_index(expr) for expr in amap.results] for amap in maps]
        if any(index.constant or index.parts for of_array in indices for index in of_array):
            return None
        of_x, of_kernel, of_y = (tuple(index.terms for index in of_array) for of_array in indices)
        if any(len(terms) != 1 or terms[0][1] != 1 for terms in (*of_kernel, *of_y)):
            return None
        loops = cls(of_x, *(tuple(terms[0][0] for terms in each) for each in (of_kernel, of_y)))
        return loops if loops.is_of_channels else None

    @property
    def is_of_channels(self) -> bool:
        """Whether the reduced channels are contiguous, and the filters too, and several rows share the kernel."""
        if len(self.of_kernel) < 2 or not self.rows:
            return False
        channel, lane = self.of_kernel[-2:]
        window_loops = [loop for terms in self.of_x[:-1] for loop, _ in terms]
        last = self.of_x[-1] == ((channel, 1),) and channel not in (*self.of_y, *window_loops)
        return last and lane == self.of_y[-1] and lane not in window_loops

    @property
    def rows(self) -> tuple[int, ...]:
        """Parallel loops that do not index the kernel; the last is that over the rows of a register tile."""
        return tuple(loop for loop in self.of_y if loop not in self.of_kernel)

    @property
    def moved_by_rows(self) -> list[int]:
        """Dimensions of the inputs that the rows of a register tile index."""
        return [d for d, terms in enumerate(self.of_x[:-1]) if self.rows[-1] in dict(terms)]

    @property
    def taps(self) -> tuple[int, ...]:
        """Reduction loops except that over channels."""
        return tuple(loop for loop in self.of_kernel[:-2] if loop not in self.of_y)

    @property
    def shared(self) -> list[int]:
        """Dimensions of the inputs along which a scale is shared: a register tile has one scale for all its taps."""
        sharing = {*self.taps, self.rows[-1]}
        return [d for d, terms in enumerate(self.of_x[:-1]) if any(loop in sharing for loop, _ in terms)]
