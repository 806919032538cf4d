"""Result of a regression check, as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any

from autotune.bundles.verdict import ALARMS, RegressionVerdict
from autotune.core.payload import REFERENCE
from autotune.core.stats import Interval
from autotune.store.records import ProcessTimes


@dataclass(frozen=True)
class Look:
    """Sequence of processes that measured a bundle without a pause.

    Attributes:
        sessions: Samples of each process.
        saw: Description of the verdict, and of other processes that used the machine meanwhile.
    """

    sessions: tuple[ProcessTimes, ...]
    saw: str


@dataclass(frozen=True)
class RegressionFinding:
    """Result of checking one bundle.

    Attributes:
        bundle: Folder of the bundle.
        payload: Spec of the payload that the bundle computes.
        verdict: ``ok``, ``faster``, ``slower``, ``wrong``, ``stale`` or ``inconclusive``.
        why: Reason for the verdict, one sentence.
        slowdown: Current over recorded time, relative to the steadier of baseline and FMA kernel; `None` unless
            compared.
        speedup: Speed-up over the baseline in `samples`, with its 95 % interval, as `verdict.quiet_speedup`.
        recorded: Speed-up in the recorded sessions, likewise.
        samples: Samples of each process in seconds per call: of the last look, or of all looks that raised an alarm.
        notes: Differences from the recording, one sentence each.
        seconds: Wall-clock time of the check, in seconds.
        oracle: Kind of oracle, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
    """

    bundle: str
    payload: str
    verdict: RegressionVerdict
    why: str
    slowdown: float | None = None
    speedup: Interval | None = None
    recorded: Interval | None = None
    samples: tuple[ProcessTimes, ...] = ()
    notes: tuple[str, ...] = field(default=())
    seconds: float = 0.0
    oracle: str = REFERENCE
    unproved: bool = False

    @property
    def is_too_noisy(self) -> bool:
        """Whether there are samples, but too noisy for a verdict."""
        return self.verdict == "inconclusive" and bool(self.samples)

    @property
    def alarms(self) -> bool:
        """Whether a CI check must fail."""
        return self.verdict in ALARMS

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return asdict(self)
