"""Entries of a race and their status: data exchanged between the tuner and the processes that run the entries."""

from dataclasses import dataclass
from typing import Literal

from autotune.core.candidate import Candidate
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import Comparator
from autotune.core.trial import Outcome

# Beyond the outcomes of a candidate: the library is not installed, reports no support, or raises.
EntryStatus = Outcome | Literal["missing", "unsupported", "failed"]


@dataclass(frozen=True)
class Entry:
    """Entry of a race: a payload, and the program or library that computes it.

    Attributes:
        name: Name of the entry's row.
        payload: Payload that is computed.
        contender: One of our programs, or a library.
        seed: Seed of the input data.
        threads: Number of threads that a library may use; a program determines its own.
    """

    name: str
    payload: Payload
    contender: Candidate | Comparator
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Verification:
    """Result of verifying an entry.

    Attributes:
        status: ``ok`` if its outputs match the oracle's, so that it may race.
        max_error: Largest absolute difference to the oracle.
        diagnostic: Description of the failure; empty if there was none.
        version: Version that a library reports.
        seconds: Approximate time of the verified call, in seconds.
    """

    status: EntryStatus
    max_error: float | None = None
    diagnostic: str = ""
    version: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExpectedPart:
    """Contiguous part of an expected output.

    Attributes:
        case: Index of the case.
        output: Index of the output among the payload's outputs.
        start: Index of its first element in the flattened output.
        shape: Shape of the whole output.
        values: Elements of the part, 1-D.
    """

    case: int
    output: int
    start: int
    shape: tuple[int, ...]
    values: Array
