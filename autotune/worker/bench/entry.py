"""Entries of an interleaved measurement and their status: data between the tuner and the processes that run them."""

from dataclasses import dataclass
from typing import Literal

from autotune.core.candidate import Candidate
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import Comparator
from autotune.core.trial import Outcome

# Besides what may become of a candidate: a library that is not installed, one that says it cannot, and one that raises.
EntryStatus = Outcome | Literal["missing", "unsupported", "failed"]


@dataclass(frozen=True)
class Entry:
    """Entrant of a race: a payload, and the program or library that computes it.

    Attributes:
        name: Name of the row.
        payload: Payload that is computed.
        contender: One of our programs, or a library.
        seed: Seed of the input data.
        threads: Threads that a library may use; a program's own say what it uses.
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
        status: ``ok`` if it computes what the oracle says, and may race.
        max_error: Largest absolute difference to the oracle.
        diagnostic: What went wrong, if anything did.
        version: Version that a library reports.
        seconds: Seconds of the call that was verified, roughly.
    """

    status: EntryStatus
    max_error: float | None = None
    diagnostic: str = ""
    version: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExpectedPart:
    """A stretch of what the oracle expects of an output.

    Attributes:
        case: Number of the case.
        output: Number of the output, among the payload's outputs.
        start: Number of its first element, of the output as one row.
        shape: Shape of the whole output.
        values: Elements of the part, one after the other.
    """

    case: int
    output: int
    start: int
    shape: tuple[int, ...]
    values: Array
