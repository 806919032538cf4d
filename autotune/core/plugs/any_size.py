"""A model of any size within bounds as data: compiled sizes, what each serves, and what reads such from a folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError
from autotune.core.host.machine import Machine
from autotune.core.payload import Argument, Payload


@dataclass(frozen=True)
class OpenDim:
    """An open dimension.

    Attributes:
        name: Name in the model.
        low: Least size.
        high: Largest size.
        pad: Whether requests may be padded to a larger size.
        split: Whether requests may be computed in parts, one behind the other.
        results: Axis that it is of each result; `None` where one has none. Empty where results follow it otherwise.
        masks: Inputs of 0 and 1 that must hold a 1 along it where it is padded: all zeros would reach what was added.
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
        sizes: Size of every open dimension, by name.
        seconds: What a call takes; where loops end earlier than they might, that share of it.
        number: Number of the compiled size.
        extent: Size along the dimension where loops end; 0 where there is none.
    """

    sizes: Mapping[str, int]
    seconds: float
    number: int
    extent: int


@dataclass(frozen=True, eq=False)
class SizeProgram:
    """A size that is ready to be compiled.

    Attributes:
        payload: What it computes.
        candidate: How it is compiled.
        owners: Size whose own a weight is, by name; empty for what all sizes share.
        machine: Machine that the candidate was chosen for.
        extents: Whether its loops end where a call says.
    """

    payload: Payload
    candidate: Candidate
    owners: Mapping[str, str]
    machine: Machine
    extents: bool = False


@dataclass(frozen=True, eq=False)
class AnySizePrograms:
    """All that serves a model at any size within bounds.

    Attributes:
        name: Name of the model for people.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it: by name of the argument, then of the dimension.
        sizes: Size of every open dimension of each program.
        programs: The compiled sizes.
        served: What they serve, in the order in which a request prefers one of two that take the same time.
        call_seconds: What a call costs beyond its program.
        setter: Function of programs that sets where their loops end, by its name in their modules.
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
        """Axis of an input or a result that a dimension is; `None` where it has none."""
        outputs = [each.name for each in self.programs[0].payload.outputs]
        if argument.name in outputs:
            return dim.results[outputs.index(argument.name)]
        return self.axes.get(argument.name, {}).get(dim.name)


@dataclass(frozen=True)
class AnySizeReader:
    """What knows folders of models of any size: the entry point ``folders`` of ``autotune.any_size``.

    Attributes:
        is_one: Tells whether a folder is such; quick.
        read: Gives what one holds: as it was tuned, or by default schedules for a machine that is given.
    """

    is_one: Callable[[Path], bool]
    read: Callable[[Path, Machine | None], AnySizePrograms]


def refuse(folder: Path, machine: Machine | None = None) -> AnySizePrograms:
    """Refuse a folder, for want of what reads it.

    Raises:
        BundleError: Always.
    """
    raise BundleError(f"a model of any size needs an entry point of autotune.any_size, none is installed for {folder}")


NO_READER = AnySizeReader(lambda _: False, refuse)
