"""Models with dynamic sizes within bounds: the compiled sizes, the sizes that each serves, and their reader."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError
from autotune.core.host.machine import Machine
from autotune.core.payload import Argument, Payload


@dataclass(frozen=True)
class OpenDim:
    """A dynamic dimension of a model.

    Attributes:
        name: Name in the model.
        low: Smallest size.
        high: Largest size.
        pad: Whether requests may be padded to a larger size.
        split: Whether requests may be split along it, and computed part by part.
        results: Axis of the dimension in each result; `None` where a result has none. Empty where the sizes of results
            depend on it otherwise.
        masks: Inputs of 0 and 1 that must have a 1 along it where it is padded: with zeros only, padding would not be
            masked.
    """

    name: str
    low: int
    high: int
    pad: bool = False
    split: bool = False
    results: tuple[int | None, ...] = ()
    masks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedSize:
    """A size that a compiled program serves.

    Attributes:
        sizes: Size of every dynamic dimension, by name.
        seconds: Seconds a call; scaled to the extent where loops end early.
        number: Index of the compiled size.
        extent: Size at which the loops along a dimension end; 0 where there is none.
    """

    sizes: Mapping[str, int]
    seconds: float
    number: int
    extent: int


@dataclass(frozen=True, eq=False)
class SizeProgram:
    """Program of one size, ready to be compiled.

    Attributes:
        payload: Payload of this size.
        candidate: Candidate to compile it with.
        owners: Size that owns a weight, by name of the weight; empty for weights that all sizes share.
        machine: Machine that the candidate was chosen for.
        extents: Whether loop bounds are set in each call.
    """

    payload: Payload
    candidate: Candidate
    owners: Mapping[str, str]
    machine: Machine
    extents: bool = False


@dataclass(frozen=True, eq=False)
class AnySizePrograms:
    """The programs that serve a model at any size within bounds.

    Attributes:
        name: Readable name of the model.
        dims: Dynamic dimensions.
        axes: Axis of each dynamic dimension in each input that has it: by name of the argument, then of the dimension.
        sizes: Size of every dynamic dimension of each program.
        programs: Programs of the compiled sizes.
        served: Sizes that they serve; of two that take the same time, the first is preferred.
        call_seconds: Overhead of a call beyond its program, in seconds.
        setter: Symbol of the function of the programs' modules that sets loop bounds.
    """

    name: str
    dims: tuple[OpenDim, ...]
    axes: Mapping[str, Mapping[str, int]]
    sizes: tuple[Mapping[str, int], ...]
    programs: tuple[SizeProgram, ...]
    served: tuple[ServedSize, ...]
    call_seconds: float
    setter: str

    def axis(self, argument: Argument, dim: OpenDim) -> int | None:
        """Return the axis of a dynamic dimension in an input or a result; `None` where it has none."""
        outputs = [each.name for each in self.programs[0].payload.outputs]
        if argument.name in outputs:
            return dim.results[outputs.index(argument.name)]
        return self.axes.get(argument.name, {}).get(dim.name)


@dataclass(frozen=True)
class AnySizeReader:
    """Reader of folders of models with dynamic sizes: the entry point ``folders`` of ``autotune.any_size``.

    Attributes:
        is_one: Predicate that returns whether a folder contains such a model; fast.
        read: Function that reads a folder: the tuned programs, or default schedules for a machine, if one is passed.
    """

    is_one: Callable[[Path], bool]
    read: Callable[[Path, Machine | None], AnySizePrograms]


def refuse(folder: Path, machine: Machine | None = None) -> AnySizePrograms:
    """Refuse a folder, since no reader is installed.

    Raises:
        BundleError: Always.
    """
    raise BundleError(f"a model of any size needs an entry point of autotune.any_size, none is installed for {folder}")


NO_READER = AnySizeReader(lambda _: False, refuse)
