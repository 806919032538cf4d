"""Replay: build a bundle again, verify and time it, and say whether the recorded speed-up holds."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autotune.assembly import MODEL_EFFORT, MODEL_SECONDS
from autotune.bundle import Bundle, read_bundle
from autotune.errors import BundleError
from autotune.ir.evaluate import Candidate, Job
from autotune.ir.module import compiler_version
from autotune.machine import this_machine
from autotune.stats import Interval, ratio_interval
from autotune.trial import Outcome
from autotune.worker import Worker

Holds = Literal["holds", "weaker", "stronger", "unknown"]
SLACK = 0.1  # beyond the recorded interval, before a speed-up counts as another one


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes:
        payload: Its name.
        outcome: Of the recorded schedule, now.
        diagnostic: What went wrong, if anything did.
        best_seconds: Median seconds a call with the schedule.
        baseline_seconds: Median seconds a call of the baseline.
        speedup: Baseline over schedule, now.
        recorded: The recorded speed-up and its interval, as (low, estimate, high).
        verdict: Whether the recorded speed-up holds.
        max_error: Largest absolute difference to the oracle.
        differences: What is not as it was recorded: compiler, machine.
    """

    payload: str
    outcome: Outcome
    diagnostic: str
    best_seconds: float | None
    baseline_seconds: float | None
    speedup: Interval | None
    recorded: Interval | None
    verdict: Holds
    max_error: float | None
    differences: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the schedule still compiles and computes what the oracle says."""
        return self.outcome == "ok"

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def replay(folder: Path) -> Replay:
    """Replay a bundle.

    Raises:
        BundleError: The bundle is incomplete or edited.
    """
    bundle = read_bundle(folder)
    machine = this_machine()
    manifest = bundle.manifest
    try:
        baseline = str(manifest["baseline"]["pipeline"])
        seed, recorded = int(manifest["seed"]), recorded_speedup(manifest["result"])
        changed = tuple(differences(manifest, machine.fingerprint))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{folder}/manifest.json must be as it was recorded, it is not: {error!r}") from error
    candidates = (Candidate(None, baseline), recorded_candidate(bundle))
    with Worker(MODEL_SECONDS) as worker:
        theirs, ours = worker.evaluate(Job(bundle.payload, candidates, machine, seed=seed, effort=MODEL_EFFORT))
    both = theirs.samples is not None and ours.samples is not None
    speedup = ratio_interval(theirs.samples.seconds, ours.samples.seconds) if both else None  # type: ignore[union-attr]
    return Replay(
        payload=bundle.payload.name,
        outcome=ours.outcome,
        diagnostic=ours.diagnostic,
        best_seconds=ours.samples.median if ours.samples else None,
        baseline_seconds=theirs.samples.median if theirs.samples else None,
        speedup=speedup,
        recorded=recorded,
        verdict=compare(speedup, recorded),
        max_error=ours.max_error,
        differences=changed,
    )


def recorded_candidate(bundle: Bundle) -> Candidate:
    """What a bundle compiles.

    Raises:
        BundleError: Its manifest does not say how.
    """
    try:
        pipeline = str(bundle.manifest["pipeline"])
        panels = tuple((str(tag), int(columns)) for tag, columns in bundle.manifest.get("panels", {}).items())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        path = bundle.folder / "manifest.json"
        raise BundleError(f"{path} must be as it was recorded, it is not: {error!r}") from error
    return Candidate(bundle.script, pipeline, bundle.tagged, panels)


def recorded_speedup(result: dict[str, Any]) -> Interval | None:
    """The speed-up a manifest claims."""
    if not result.get("speedup_interval"):
        return None
    low, high = result["speedup_interval"]
    return Interval(float(low), float(result["speedup"]), float(high))


def compare(now: Interval | None, recorded: Interval | None) -> Holds:
    """Whether two speed-ups agree: their intervals, widened by `SLACK`, overlap."""
    if now is None or recorded is None:
        return "unknown"
    if now.high < recorded.low * (1 - SLACK):
        return "weaker"
    if now.low > recorded.high * (1 + SLACK):
        return "stronger"
    return "holds"


def differences(manifest: dict[str, Any], fingerprint: str) -> list[str]:
    """What differs between the recording and now, as sentences."""
    found = []
    recorded = manifest.get("versions", {}).get("compiler", "unknown")
    if recorded != compiler_version():
        found.append(f"compiler was {recorded}, is {compiler_version()}")
    machine = manifest["result"].get("machine", {})
    if machine.get("fingerprint") != fingerprint:
        found.append(f"machine was {machine.get('cpu', 'unknown')} ({machine.get('isa', '?')}), is another one")
    return found
