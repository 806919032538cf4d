"""Result of `regress`, as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any

from autotune.bundles.verdict import ALARMS, RegressionVerdict
from autotune.core.payload import REFERENCE
from autotune.core.stats import Interval
from autotune.store.records import ProcessTimes


@dataclass(frozen=True)
class Look:
    """Processes that measured a bundle one after the other.

    Attributes:
        sessions: Times of each.
        saw: Verdict of them, and which other processes used the machine meanwhile.
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
        why: Reason for the verdict, a sentence.
        slowdown: Time now over that recorded, against the steadier of baseline and FMA kernel; `None` unless compared.
        speedup: Speed-up over the baseline in `samples`, with its 95 % interval, as `verdict.quiet_speedup`.
        recorded: The same of the sessions that the bundle records.
        samples: Raw times in seconds a call, an entry a process: of the last look, or of all that an alarm needed.
        notes: Differences from the recording, a sentence each.
        seconds: Wall-clock time of the check, in seconds.
        oracle: What results were compared with, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and nothing but its own plain lowering says what is right here.
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
        """Whether it was measured, and too noisily to judge."""
        return self.verdict == "inconclusive" and bool(self.samples)

    @property
    def alarms(self) -> bool:
        """Whether a gate in CI must fail."""
        return self.verdict in ALARMS

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)
