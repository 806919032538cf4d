"""Arrays of a payload's arguments, initialized from a seed and set to the values of each case."""

from collections.abc import Iterator, Mapping, Sequence

from autotune.core.host.pages import ALIGNMENT, Pages, aligned_empty
from autotune.core.host.tensor_file import is_mapped
from autotune.core.payload import DTYPES, WRITTEN, Argument, Array, Case, Payload
from autotune.worker.bench.fences import word_sum
from autotune.worker.bench.verify import poison

MOST_COPIED = 1 << 30  # bytes of weights up to which they are copied to huge pages, as in all other programs


def mapped_weights(arguments: Sequence[Argument], values: Mapping[str, Array]) -> Iterator[str]:
    """Yield the names of a large model's weights that programs read from the file mapping, without a copy."""
    weights = {a.name: values[a.name] for a in arguments if a.role == "weight"}
    if sum(array.nbytes for array in weights.values()) <= MOST_COPIED:
        return
    for argument in arguments:
        array = weights.get(argument.name)
        is_plain = array is not None and array.dtype == DTYPES[argument.dtype] and array.flags.c_contiguous
        if array is not None and is_plain and is_mapped(array) and array.ctypes.data % ALIGNMENT == 0:
            yield argument.name


class PayloadArrays:
    """Arrays of a payload's arguments, in order.

    Attributes:
        payload: Payload whose arguments the arrays belong to.
        seed: Seed of the input data.
        pages: Kind of memory pages for large arrays.
        cases: Cases that are verified and measured; one without values if the payload defines none.
        arrays: An array for each argument, in order, of its shape and dtype.
    """

    def __init__(self, payload: Payload, seed: int, pages: Pages = "huge") -> None:
        self.payload = payload
        self.seed = seed
        self.pages = pages
        self.cases = payload.cases or (Case(),)
        values = payload.make_inputs(seed)
        self._mapped = frozenset(mapped_weights(payload.arguments, values))
        self.arrays = [values[a.name] if a.name in self._mapped else aligned_empty(a, pages) for a in payload.arguments]
        self._named = {argument.name: array for argument, array in zip(payload.arguments, self.arrays, strict=True)}
        self._sums = {name: word_sum(values[name]) for name in self._mapped}
        self.fill(values)
        self._starts = {a.name: self._named[a.name].copy() for a in payload.arguments if a.role == "state"}

    @property
    def written(self) -> list[Array]:
        """Arrays that timed programs write: states and outputs."""
        return [self._named[argument.name] for argument in self.payload.written]

    @property
    def inputs(self) -> dict[str, Array]:
        """All arrays except outputs, by name."""
        return {a.name: self._named[a.name] for a in self.payload.arguments if a.role != "output"}

    def fill(self, values: dict[str, Array]) -> None:
        """Initialize inputs and states, and store the checksums of read-only arrays."""
        for argument in self.payload.arguments:
            array = self._named[argument.name]
            changed = argument.name not in self._mapped or word_sum(array) != self._sums[argument.name]
            if argument.role != "output" and changed:  # a write would replace a mapped page by a private copy
                array[...] = values[argument.name]
        self._sums = self.sums()

    def sums(self) -> dict[str, int]:
        """Return the checksum of every read-only array, by name."""
        return {a.name: word_sum(self._named[a.name]) for a in self.payload.arguments if a.role not in WRITTEN}

    def enter(self, case: Case) -> None:
        """Set the inputs to their values in a case."""
        for name, value in case.values:
            self._named[name].fill(value)
            self._sums[name] = word_sum(self._named[name])

    @property
    def has_states(self) -> bool:
        """Whether the payload has states, which a call leaves for the next one."""
        return bool(self._starts)

    def restore(self) -> None:
        """Reset the states to their values before a first call."""
        for name, start in self._starts.items():
            self._named[name][...] = start

    def restart(self, case: Case, written: Sequence[Array] | None = None) -> None:
        """Enter a case as for a first call: reset the states, poison the outputs.

        The arrays `written` stand for the payload's own states and outputs if given.
        """
        self.enter(case)
        for argument, array in zip(self.payload.written, written or self.written, strict=True):
            if argument.role == "state":
                array[...] = self._starts[argument.name]
            else:
                poison(array)
