"""`Comparison`: result of one run of `compare`, as plain data."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from autotune.core.host.machine import Machine, Roofs
from autotune.core.payload import REFERENCE
from autotune.core.stats import Interval
from autotune.core.trial import Samples
from autotune.worker.bench.entry import EntryStatus

FINE = ("ok", "missing", "unsupported")


@dataclass(frozen=True)
class Row:
    """Row of one entry.

    Attributes:
        name: Name of the row: ``baseline``, ``default``, ``best``, or a library.
        outcome: Status: ``ok``, or why there is no time.
        version: Version of the program or library.
        seconds: Time in seconds per call with its 95 % interval, as in `autotune.core.winner_time`.
        roof_fraction: Share of the FMA roof, by the rate of an FMA kernel interleaved with the entry.
        max_error: Largest absolute difference to the oracle.
        ratio: Time over that of the row named in `Comparison.ratio_to`, with its 95 % interval.
        diagnostic: Description of a failure; empty if there was none.
        samples: Raw samples.
        efficiency: Parallel efficiency: time on one thread over the number of threads times the time on all; `None` for
            one thread.
        clock_seconds: Median time by the clock, in seconds per call.
    """

    name: str
    outcome: EntryStatus
    version: str = ""
    seconds: Interval | None = None
    roof_fraction: float | None = None
    max_error: float | None = None
    ratio: Interval | None = None
    diagnostic: str = ""
    samples: Samples | None = None
    efficiency: float | None = None
    clock_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return {
            "name": self.name,
            "outcome": self.outcome,
            "seconds": self.seconds.estimate if self.seconds else None,
            "clock_seconds": self.clock_seconds,
            "interval": [self.seconds.low, self.seconds.high] if self.seconds else None,
            "roof_fraction": self.roof_fraction,
            "max_error": self.max_error if self.max_error is not None and isfinite(self.max_error) else None,
            "version": self.version,
            "ratio": self.ratio.estimate if self.ratio else None,
            "ratio_interval": [self.ratio.low, self.ratio.high] if self.ratio else None,
            "diagnostic": self.diagnostic,
            **({"efficiency": self.efficiency} if self.efficiency is not None else {}),
            "samples": asdict(self.samples) if self.samples else None,
        }


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        payload: Name of the payload.
        machine: The host.
        roofs: Roofs measured at the start, in the same process.
        noise_floor: Relative difference below which times count as equal.
        rows: Row of each entry, in the order of the request.
        ratio_to: Name of the row that ratios are relative to; `None` if it has no time.
        seed: Seed of the input data.
        notes: Notes for the user, one sentence each.
        oracle: Kind of oracle, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
        unsteady: Reason why times are unreliable, one sentence; empty if they are reliable.
    """

    payload: str
    machine: Machine
    roofs: Roofs
    noise_floor: float
    rows: tuple[Row, ...]
    ratio_to: str | None
    seed: int
    notes: tuple[str, ...] = ()
    oracle: str = REFERENCE
    unproved: bool = False
    unsteady: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the results of every entry that ran match the oracle's."""
        return all(row.outcome in FINE for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object, as `compare --json` prints it."""
        return {
            "payload": self.payload,
            "machine": asdict(self.machine) | {"fingerprint": self.machine.fingerprint},
            "roofs": self.roofs.known,
            "noise_floor": self.noise_floor,
            "threads": self.machine.threads,
            "seed": self.seed,
            "ratio_to": self.ratio_to,
            "rows": [row.to_json() for row in self.rows],
            "oracle": self.oracle,
            "unproved": self.unproved,
            "unsteady": self.unsteady,
            "notes": list(self.notes),
        }
