"""Replay: build a bundle again, verify and time it, and say whether the recorded speed-up holds."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from autotune.bundles.candidates import (
    differences_now,
    recorded_candidate,
    recorded_machine,
)
from autotune.bundles.impossible import why_impossible
from autotune.bundles.timing import Timing, expected_seconds, time_bundle
from autotune.core.candidate import Claim
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import emulated
from autotune.core.listener import SILENT, Listener
from autotune.core.options import LEAST_TIMEOUT, MOST_SECONDS, check_real
from autotune.core.payload import REFERENCE, Payload
from autotune.core.stats import Interval
from autotune.core.trial import RIGHT, UNTOLD, Outcome
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import Manifest
from autotune.store.records import ProcessTimes
from autotune.store.sessions import SessionFigures, figures_of, recorded_quiet, speedup_of
from autotune.tuning.stages.roofline import bundle_may_exceed_roof, share_beside, why_unsteady
from autotune.worker.bench.proof import hash_stages
from autotune.worker.worker import Worker

ReplayVerdict = Literal["holds", "weaker", "stronger", "wrong", "unknown", "impossible"]
SLACK = 0.1  # beyond the recorded interval, before a speed-up counts as another one
REPLAY_EFFORT = Effort(samples=30, seconds=3.0, sample_seconds=0.005)
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
        best_seconds: Seconds a call with the schedule, as `autotune.core.winner_time` has it.
        baseline_seconds: Seconds a call of the baseline, likewise.
        speedup: Baseline over schedule, now.
        recorded: The recorded speed-up and its interval.
        verdict: Whether the recorded speed-up holds: inside its interval, weaker or stronger; wrong if the schedule no
            longer computes what the oracle says, unknown without a baseline, where an interval is too wide, or where it
            got too little memory or time; impossible where a time is above what the processor does.
        why: Reason for a verdict of unknown or impossible, a sentence; else empty.
        max_error: Largest absolute difference to the oracle.
        differences: What is not as it was recorded, and what that means, a sentence each.
        same_machine: Whether the recorded speed-up was measured on a machine like this.
        oracle: What results were compared with, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and nothing but its own plain lowering says what is right here.
        clock_seconds: Median seconds a call with the schedule as the clock gave them.
        noise_floor: Relative differences below it were ties when it was recorded.
        unsteady: Why times that were taken now say nothing, a sentence; empty where they do.
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
    oracle: str = REFERENCE
    unproved: bool = False
    clock_seconds: float | None = None
    noise_floor: float = 0.0
    unsteady: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the schedule still compiles and computes what the oracle says."""
        return self.outcome in RIGHT

    @property
    def is_fine(self) -> bool:
        """Whether it is right, and on a machine like the recorded one as fast as recorded, which must be known."""
        claimed = self.recorded is not None and self.same_machine
        fails = ("impossible", "weaker", "unknown") if claimed else ("impossible",)
        return self.is_right and self.verdict not in fails

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def replay(
    folder: Path,
    timeout: float | None = None,
    listener: Listener = SILENT,
    named: Payload | None = None,
    *,
    emulate: bool = False,
) -> Replay:
    """Replay a bundle.

    Args:
        folder: Folder of the bundle.
        timeout: Seconds that one process may take; by default as long as what the bundle records lets expect.
        listener: Notified of what goes on.
        named: What it computes, where the user names that.
        emulate: Emulate tiles of a matrix unit that this processor lacks: right, and slow.

    Raises:
        BundleError: The bundle is incomplete, edited, or asks for what no bundle should.
        OptionError: The timeout is no time.
    """
    with emulated() if emulate else nullcontext():
        return replay_here(folder, timeout, listener, named)


def replay_here(folder: Path, timeout: float | None, listener: Listener, named: Payload | None) -> Replay:
    """Replay a bundle by the instructions that there are; see `replay`."""
    if timeout is not None:
        check_real("timeout", timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    begun = time.perf_counter()
    bundle = read_bundle(folder, named)
    machine = recorded_machine(bundle)
    manifest, candidate = bundle.manifest, recorded_candidate(bundle)
    most = timeout or expected_seconds(bundle)
    listener.stage(f"building it again and verifying it, for {most:.0f} s at most")
    with Worker(most, threads=machine.threads) as worker:
        first = time_bundle(bundle, machine, worker, REPLAY_EFFORT)
        hashes = worker.call(hash_stages, Claim(bundle.payload, candidate)) if first.ours.outcome in RIGHT else None
    sessions = [session for session in [first.session] if session is not None]
    error = first.part_error(manifest.baseline.part_error)
    while sessions and is_open(sessions, manifest, time.perf_counter() - begun, error):
        listener.stage(f"measuring it in process {len(sessions) + 1}")
        with Worker(most, threads=machine.threads) as worker:
            again = time_bundle(bundle, machine, worker, REPLAY_EFFORT).session
        if again is None:
            break
        sessions.append(again)
    found = summarize(bundle, first, sessions, machine, hashes if isinstance(hashes, dict) else None)
    why = why_impossible(bundle, machine, sessions[-1], REPLAY_EFFORT) if sessions else ""
    return replace(found, verdict="impossible", why=why) if why else found


def is_open(sessions: Sequence[ProcessTimes], manifest: Manifest, seconds: float, error: float | None = None) -> bool:
    """Return whether another process should be asked: a speed-up is weaker, or not known well enough yet.

    What is not known because a part of the baseline is timed, no other process knows either.

    Args:
        sessions: Times so far.
        manifest: The bundle's manifest, with the speed-up that was recorded.
        seconds: Seconds that it took so far.
        error: Relative error of the baseline's times, as it is seen here; by default as it is recorded.
    """
    error = manifest.baseline.part_error if error is None else error
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
    """The result as plain data."""
    manifest, ours = bundle.manifest, first.ours
    error = first.part_error(manifest.baseline.part_error)
    alike = manifest.fingerprint == machine.fingerprint
    figures = figures_of(sessions, error, recorded_quiet(manifest) if alike else None) if sessions else None
    speedup = figures.speedup if figures else None
    verdict = verdict_of(ours.outcome, speedup, manifest.speedup)
    why = why_unknown(speedup, manifest.speedup, manifest.baseline.why_not) if ours.outcome in RIGHT else ""
    unsteady = unsteady_now(bundle, figures, machine, alike=alike) if figures is not None else ""
    if unsteady and ours.outcome in RIGHT:
        verdict, why = "unknown", unsteady
    return Replay(
        payload=bundle.payload.name,
        outcome=ours.outcome,
        diagnostic=ours.diagnostic,
        best_seconds=figures.best_seconds if figures else None,
        baseline_seconds=figures.baseline_seconds if figures else None,
        speedup=speedup,
        recorded=manifest.speedup,
        verdict=verdict,
        why=why,
        max_error=ours.max_error,
        differences=differences_now(bundle, machine, hashes),
        same_machine=alike,
        oracle=bundle.payload.oracle,
        unproved=bundle.payload.unproved,
        clock_seconds=figures.clock_seconds if figures else None,
        noise_floor=manifest.noise_floor,
        unsteady=unsteady,
    )


def unsteady_now(bundle: BundleFiles, figures: SessionFigures, machine: Machine, *, alike: bool) -> str:
    """Why times that were taken now say nothing, in a sentence; empty where they do.

    Args:
        bundle: The bundle.
        figures: What the times come to.
        machine: The host.
        alike: Whether it is like the machine that recorded the bundle, so that its roofs say what there should be.
    """
    flops = 0.0 if bundle_may_exceed_roof(bundle) else bundle.manifest.flops
    beside = figures.reference_seconds
    share = share_beside(flops, figures.clock_seconds, beside, machine) if flops and beside is not None else None
    return why_unsteady(share, figures.interference, beside, machine, bundle.manifest.roofs["flops"] if alike else 0.0)


def verdict_of(outcome: Outcome, now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """Outcome of a bundle: one that got too little memory or time is not called wrong."""
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
    """Return whether an interval is so wide that it says nothing."""
    return speedup.high > WIDE * speedup.low


def why_unknown(now: Interval | None, recorded: Interval | None, why_not: str = "") -> str:
    """Why it cannot be decided whether a speed-up holds; empty if it can.

    Args:
        now: Speed-up measured now.
        recorded: Speed-up that the bundle records.
        why_not: Reason why the bundle's baseline could not be timed.
    """
    if recorded is None:
        return (
            f"the baseline could not be timed when it was recorded ({why_not})"
            if why_not
            else "no speed-up was recorded"
        )
    if now is None:
        return "the baseline does not run here"
    for which, speedup in (("measured now", now), ("recorded", recorded)):
        if is_wide(speedup):
            span = f"spans a factor of {speedup.high / speedup.low:.3g}, at most {WIDE:g} says something"
            return f"the interval {which} {span}; measure again on a quieter machine"
    return ""
