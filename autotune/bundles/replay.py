"""Replay: build a bundle again, verify and time it, and say whether the recorded speed-up holds."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autotune.bundles.candidates import differences_now, recorded_candidate, recorded_pages
from autotune.core.candidate import Candidate, Claim
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.listener import SILENT, Listener
from autotune.core.machine import Machine, this_machine
from autotune.core.options import LEAST_TIMEOUT, MOST_SECONDS, check_real
from autotune.core.stats import Interval
from autotune.core.trial import RIGHT, UNTOLD, Outcome
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import Manifest
from autotune.store.records import ProcessTimes
from autotune.store.sessions import figures_of, speedup_of
from autotune.worker.limits import MODEL_SECONDS
from autotune.worker.proof import hash_stages
from autotune.worker.worker import Worker

ReplayVerdict = Literal["holds", "weaker", "stronger", "wrong", "unknown"]
SLACK = 0.1  # beyond the recorded interval, before a speed-up counts as another one
REPLAY_EFFORT = Effort(samples=30, seconds=3.0, sample_seconds=0.005)
LEAST_SECONDS = 60.0  # of a process that replays: some fifty times what a kernel takes on a quiet core
SECONDS_PER_BYTE = 5e-4  # of MLIR to compile, some twenty times what GPT-2 takes
CALLS = 20  # of schedule and baseline: to verify them, to find how many calls are a sample, and the samples
MOST_SESSIONS = 2  # a speed-up that does not hold is measured again in a fresh process before that is said
MOST_UNSURE, UNSURE_SECONDS = 4, 120.0  # processes, and seconds, before it is said that nothing is known
WIDE = 1.5  # high over low: an interval wider than that would agree with claims far apart, and knows nothing


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
            longer computes what the oracle says, unknown without a baseline, where an interval is too wide, or where it
            got too little memory or time.
        why: Reason for a verdict of unknown, a sentence; else empty.
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
    why: str
    max_error: float | None
    differences: tuple[str, ...]
    same_machine: bool

    @property
    def is_right(self) -> bool:
        """Whether the schedule still compiles and computes what the oracle says."""
        return self.outcome in RIGHT

    @property
    def is_fine(self) -> bool:
        """Whether it is right, and on a machine like the recorded one as fast as recorded, which must be known."""
        claimed = self.recorded is not None and self.same_machine
        return self.is_right and not (claimed and self.verdict in ("weaker", "unknown"))

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


def replay(folder: Path, timeout: float | None = None, listener: Listener = SILENT) -> Replay:
    """Replay a bundle.

    Args:
        folder: Folder of the bundle.
        timeout: Seconds that one process may take; by default as long as what the bundle records lets expect.
        listener: Notified of what goes on.

    Raises:
        BundleError: The bundle is incomplete, edited, or asks for what no bundle should.
        OptionError: The timeout is no time.
    """
    if timeout is not None:
        check_real("timeout", timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    begun = time.perf_counter()
    bundle = read_bundle(folder)
    machine = recorded_pages(bundle, this_machine())
    manifest, candidate = bundle.manifest, recorded_candidate(bundle)
    most = timeout or expected_seconds(bundle)
    listener.stage(f"building it again and verifying it, for {most:.0f} s at most")
    with Worker(most) as worker:
        first = time_bundle(bundle, machine, worker, REPLAY_EFFORT)
        hashes = worker.call(hash_stages, Claim(bundle.payload, candidate)) if first.ours.outcome in RIGHT else None
    sessions = [session for session in [first.session] if session is not None]
    while sessions and is_open(sessions, manifest, time.perf_counter() - begun):
        listener.stage(f"measuring it in process {len(sessions) + 1}")
        with Worker(most) as worker:
            again = time_bundle(bundle, machine, worker, REPLAY_EFFORT).session
        if again is None:
            break
        sessions.append(again)
    return summarize(bundle, first, sessions, machine, hashes if isinstance(hashes, dict) else None)


def expected_seconds(bundle: BundleFiles) -> float:
    """Most seconds that building, verifying and timing a bundle once should take, from what it records.

    A stranger's bundle may claim what it likes, and run for ever: never more than `MODEL_SECONDS`.
    """
    text = sum(map(len, bundle.texts.values()))
    figures = figures_of(bundle.manifest.samples, bundle.manifest.baseline.part_error)
    calls = figures.best_seconds + (figures.baseline_seconds or 0.0)
    return min(MODEL_SECONDS, LEAST_SECONDS + text * SECONDS_PER_BYTE + calls * CALLS)


def is_open(sessions: Sequence[ProcessTimes], manifest: Manifest, seconds: float) -> bool:
    """Tell whether another process should be asked: a speed-up is weaker, or not known well enough yet.

    What is not known because a part of the baseline is timed, no other process knows either.

    Args:
        sessions: Times so far.
        manifest: The bundle's manifest, with the speed-up that was recorded.
        seconds: Seconds that it took so far.
    """
    error = manifest.baseline.part_error
    speedup = speedup_of(sessions, error)
    verdict = compare(speedup, manifest.speedup)
    if verdict == "unknown":
        narrows = speedup is not None and is_wide(speedup) and not is_wide(Interval(1.0, 1.0, 1.0).widened(error))
        return narrows and len(sessions) < MOST_UNSURE and seconds < UNSURE_SECONDS
    return verdict == "weaker" and len(sessions) < MOST_SESSIONS


def summarize(
    bundle: BundleFiles,
    first: Timing,
    sessions: Sequence[ProcessTimes],
    machine: Machine,
    hashes: dict[str, str] | None,
) -> Replay:
    """What was found, as plain data."""
    manifest, ours = bundle.manifest, first.ours
    figures = figures_of(sessions, manifest.baseline.part_error) if sessions else None
    speedup = figures.speedup if figures else None
    return Replay(
        payload=bundle.payload.name,
        outcome=ours.outcome,
        diagnostic=ours.diagnostic,
        best_seconds=figures.best_seconds if figures else None,
        baseline_seconds=figures.baseline_seconds if figures else None,
        speedup=speedup,
        recorded=manifest.speedup,
        verdict=verdict_of(ours.outcome, speedup, manifest.speedup),
        why=why_unknown(speedup, manifest.speedup) if ours.outcome in RIGHT else "",
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


def verdict_of(outcome: Outcome, now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """What became of a bundle: one that got too little memory or time is not called wrong."""
    if outcome in UNTOLD:
        return "unknown"
    return compare(now, recorded) if outcome in RIGHT else "wrong"


def compare(now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """Whether two speed-ups agree: their intervals, widened by `SLACK`, overlap; unknown if one says nothing."""
    if now is None or recorded is None or why_unknown(now, recorded):
        return "unknown"
    if now.high < recorded.low * (1 - SLACK):
        return "weaker"
    if now.low > recorded.high * (1 + SLACK):
        return "stronger"
    return "holds"


def is_wide(speedup: Interval) -> bool:
    """Tell whether an interval is so wide that it says nothing."""
    return speedup.high > WIDE * speedup.low


def why_unknown(now: Interval | None, recorded: Interval | None) -> str:
    """Why nobody knows whether a speed-up holds; empty if it can be told."""
    if recorded is None:
        return "no speed-up was recorded"
    if now is None:
        return "the baseline does not run here"
    for which, speedup in (("measured now", now), ("recorded", recorded)):
        if is_wide(speedup):
            span = f"spans a factor of {speedup.high / speedup.low:.3g}, at most {WIDE:g} says something"
            return f"the interval {which} {span}; measure again on a quieter machine"
    return ""
