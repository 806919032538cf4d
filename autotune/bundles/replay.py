"""Replay: build a bundle again, verify and time it, and say whether the recorded speed-up holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autotune.bundles.candidates import differences_now, recorded_candidate, recorded_pages
from autotune.core.candidate import Candidate, Claim
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.machine import Machine, this_machine
from autotune.core.stats import Interval
from autotune.core.trial import RIGHT, Outcome
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest_checks import speedup_of
from autotune.store.records import ProcessTimes
from autotune.worker.limits import MODEL_SECONDS
from autotune.worker.proof import hash_stages
from autotune.worker.worker import Worker

ReplayVerdict = Literal["holds", "weaker", "stronger", "wrong", "unknown"]
SLACK = 0.1  # beyond the recorded interval, before a speed-up counts as another one
REPLAY_EFFORT = Effort(samples=30, seconds=3.0, sample_seconds=0.005)
MOST_SESSIONS = 2  # a speed-up that does not hold is measured again in a fresh process before that is said


@dataclass(frozen=True)
class Replay:
    """Result of a replay.

    Attributes:
        payload: Name of the payload.
        outcome: Outcome of the recorded schedule when it is run now.
        diagnostic: What went wrong, if anything did.
        best_seconds: Median seconds a call with the schedule.
        baseline_seconds: Median seconds a call of the baseline.
        speedup: Baseline over schedule, now.
        recorded: The recorded speed-up and its interval.
        verdict: Whether the recorded speed-up holds: inside its interval, weaker or stronger; wrong if the schedule no
            longer computes what the oracle says, unknown without a baseline.
        max_error: Largest absolute difference to the oracle.
        differences: What is not as it was recorded, and what that means, a sentence each.
        same_machine: Whether the recorded speed-up was measured on a machine like this.
    """

    payload: str
    outcome: Outcome
    diagnostic: str
    best_seconds: float | None
    baseline_seconds: float | None
    speedup: Interval | None
    recorded: Interval | None
    verdict: ReplayVerdict
    max_error: float | None
    differences: tuple[str, ...]
    same_machine: bool

    @property
    def is_right(self) -> bool:
        """Whether the schedule still compiles and computes what the oracle says."""
        return self.outcome in RIGHT

    @property
    def is_fine(self) -> bool:
        """Whether it is right, and on a machine like the recorded one as fast as recorded."""
        return self.is_right and not (self.verdict == "weaker" and self.same_machine)

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


@dataclass(frozen=True)
class Timing:
    """A process that built a bundle again.

    Attributes:
        theirs: The baseline.
        ours: The recorded schedule.
    """

    theirs: Evaluation
    ours: Evaluation

    @property
    def session(self) -> ProcessTimes | None:
        """Its samples, if there are any of the schedule."""
        if self.ours.samples is None:
            return None
        baseline = self.theirs.samples.seconds if self.theirs.samples else ()
        return ProcessTimes(self.ours.samples.seconds, baseline, self.ours.samples.reference_seconds)


def replay(folder: Path) -> Replay:
    """Replay a bundle.

    Raises:
        BundleError: The bundle is incomplete, edited, or asks for what no bundle should.
    """
    bundle = read_bundle(folder)
    machine = recorded_pages(bundle, this_machine())
    manifest, candidate = bundle.manifest, recorded_candidate(bundle)
    with Worker(MODEL_SECONDS) as worker:
        first = time_bundle(bundle, machine, worker, REPLAY_EFFORT)
        hashes = worker.call(hash_stages, Claim(bundle.payload, candidate)) if first.ours.outcome in RIGHT else None
    sessions = [session for session in [first.session] if session is not None]
    error = manifest.baseline.part_error
    while (
        sessions
        and compare(speedup_of(sessions, error), manifest.speedup) == "weaker"
        and len(sessions) < MOST_SESSIONS
    ):
        with Worker(MODEL_SECONDS) as worker:
            again = time_bundle(bundle, machine, worker, REPLAY_EFFORT).session
        if again is None:
            break
        sessions.append(again)
    return summarize(bundle, first, sessions, machine, hashes if isinstance(hashes, dict) else None)


def summarize(
    bundle: BundleFiles,
    first: Timing,
    sessions: Sequence[ProcessTimes],
    machine: Machine,
    hashes: dict[str, str] | None,
) -> Replay:
    """What was found, as plain data."""
    manifest, ours, theirs = bundle.manifest, first.ours, first.theirs
    speedup = speedup_of(sessions, manifest.baseline.part_error) if sessions else None
    return Replay(
        payload=bundle.payload.name,
        outcome=ours.outcome,
        diagnostic=ours.diagnostic,
        best_seconds=ours.samples.median if ours.samples else None,
        baseline_seconds=theirs.samples.median if theirs.samples else None,
        speedup=speedup,
        recorded=manifest.speedup,
        verdict=compare(speedup, manifest.speedup) if ours.outcome in RIGHT else "wrong",
        max_error=ours.max_error,
        differences=differences_now(bundle, machine, hashes),
        same_machine=manifest.fingerprint == machine.fingerprint,
    )


def time_bundle(bundle: BundleFiles, machine: Machine, worker: Worker, effort: Effort) -> Timing:
    """Build a bundle's baseline and schedule, verify both, and time them interleaved."""
    baseline = bundle.manifest.baseline
    candidates = (Candidate(None, baseline.pipeline, part=baseline.part), recorded_candidate(bundle))
    job = Job(bundle.payload, candidates, machine, seed=bundle.manifest.seed, effort=effort)
    return Timing(*worker.evaluate(job))


def compare(now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """Whether two speed-ups agree: their intervals, widened by `SLACK`, overlap."""
    if now is None or recorded is None:
        return "unknown"
    if now.high < recorded.low * (1 - SLACK):
        return "weaker"
    if now.low > recorded.high * (1 + SLACK):
        return "stronger"
    return "holds"
