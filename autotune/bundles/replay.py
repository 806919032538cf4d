"""Replay: compile, verify and time a bundle, and decide whether its recorded speed-up holds."""

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
from autotune.core.trial import INCONCLUSIVE, RIGHT, Outcome
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import Manifest
from autotune.store.records import ProcessTimes
from autotune.store.sessions import SessionFigures, figures_of, recorded_quiet, speedup_of
from autotune.tuning.stages.roofline import bundle_may_exceed_roof, share_beside, why_unsteady
from autotune.worker.bench.proof import hash_stages
from autotune.worker.worker import Worker

ReplayVerdict = Literal["holds", "weaker", "stronger", "wrong", "unknown", "impossible"]
SLACK = 0.1  # relative widening of the recorded interval before a speed-up counts as different
REPLAY_EFFORT = Effort(samples=30, seconds=3.0, sample_seconds=0.005)
MOST_SESSIONS = 2  # a weaker speed-up is measured again in a new process before it is reported
MOST_UNSURE, UNSURE_SECONDS = 4, 120.0  # processes, and seconds, before the verdict is unknown
WIDE = 1.5  # high over low: a wider interval would agree with very different speed-ups, and decides nothing


@dataclass(frozen=True)
class Replay:
    """Result of a replay.

    Attributes:
        payload: Name of the payload.
        outcome: Current outcome of the recorded schedule.
        diagnostic: Description of a failure; empty if there was none.
        best_seconds: Time of the scheduled program in seconds per call, as in `autotune.core.winner_time`.
        baseline_seconds: Time of the baseline in seconds per call, likewise.
        speedup: Current speed-up, baseline over schedule, with its interval.
        recorded: Recorded speed-up with its interval.
        verdict: Whether the recorded speed-up holds, is weaker or stronger; wrong if the results no longer match the
            oracle's; unknown without a baseline, with too wide an interval, or with too little memory or time;
            impossible if the implied rate exceeds the processor's peak.
        why: Reason for a verdict of unknown or impossible, one sentence; else empty.
        max_error: Largest absolute difference to the oracle.
        differences: Differences from the recording and their effects, one sentence each.
        same_machine: Whether the recorded speed-up was measured on a machine with the same fingerprint.
        oracle: Kind of oracle, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
        clock_seconds: Median time of the scheduled program by the clock, in seconds per call.
        noise_floor: Relative difference below which configs counted as equal when it was recorded.
        unsteady: Reason why the current times are unreliable, one sentence; empty if they are reliable.
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
        """Whether the schedule still compiles and its results match the oracle's."""
        return self.outcome in RIGHT

    @property
    def is_fine(self) -> bool:
        """Whether the results are correct and, on the recorded kind of machine, the speed-up is known to hold."""
        claimed = self.recorded is not None and self.same_machine
        fails = ("impossible", "weaker", "unknown") if claimed else ("impossible",)
        return self.is_right and self.verdict not in fails

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
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
        timeout: Time limit of one process in seconds; by default derived from the recorded times.
        listener: Listener of the stages.
        named: Payload that the user names for the bundle.
        emulate: Emulate tiles of a matrix unit that this processor lacks, which is correct but slow.

    Raises:
        BundleError: The bundle is incomplete, edited, or contains something forbidden.
        OptionError: The timeout is out of range.
    """
    with emulated() if emulate else nullcontext():
        return replay_here(folder, timeout, listener, named)


def replay_here(folder: Path, timeout: float | None, listener: Listener, named: Payload | None) -> Replay:
    """Replay a bundle with the current setting of tile emulation; see `replay`."""
    if timeout is not None:
        check_real("timeout", timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    start = time.perf_counter()
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
    while sessions and is_open(sessions, manifest, time.perf_counter() - start, error):
        listener.stage(f"measuring it in process {len(sessions) + 1}")
        with Worker(most, threads=machine.threads) as worker:
            again = time_bundle(bundle, machine, worker, REPLAY_EFFORT).session
        if again is None:
            break
        sessions.append(again)
    result = summarize(bundle, first, sessions, machine, hashes if isinstance(hashes, dict) else None)
    why = why_impossible(bundle, machine, sessions[-1], REPLAY_EFFORT) if sessions else ""
    return replace(result, verdict="impossible", why=why) if why else result


def is_open(sessions: Sequence[ProcessTimes], manifest: Manifest, seconds: float, error: float | None = None) -> bool:
    """Return whether another process should measure: the speed-up is weaker, or its interval is still too wide.

    If the interval is wide because only a part of the baseline is timed, further processes cannot narrow it.

    Args:
        sessions: Samples so far.
        manifest: Manifest of the bundle, with the recorded speed-up.
        seconds: Seconds elapsed so far.
        error: Relative error of the baseline's times as measured here; by default as recorded.
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
    """Combine all measurements to the result."""
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
    """Return a sentence on why the current times are unreliable; empty if they are reliable.

    Args:
        bundle: The bundle.
        figures: Figures of the current sessions.
        machine: The host.
        alike: Whether the host has the fingerprint of the recording machine, so that the recorded roofs apply.
    """
    flops = 0.0 if bundle_may_exceed_roof(bundle) else bundle.manifest.flops
    fma = figures.reference_seconds
    share = share_beside(flops, figures.clock_seconds, fma, machine) if flops and fma is not None else None
    return why_unsteady(share, figures.interference, fma, machine, bundle.manifest.roofs["flops"] if alike else 0.0)


def verdict_of(outcome: Outcome, now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """Return the verdict for an outcome and a speed-up; too little memory or time is unknown, not wrong."""
    if outcome in INCONCLUSIVE:
        return "unknown"
    return compare(now, recorded) if outcome in RIGHT else "wrong"


def compare(now: Interval | None, recorded: Interval | None) -> ReplayVerdict:
    """Compare two speed-ups; they agree if their intervals, widened by `SLACK`, overlap."""
    if now is None or recorded is None or why_unknown(now, recorded):
        return "unknown"
    if now.high < recorded.low * (1 - SLACK):
        return "weaker"
    if now.low > recorded.high * (1 + SLACK):
        return "stronger"
    return "holds"


def is_wide(speedup: Interval) -> bool:
    """Return whether an interval is too wide for a verdict."""
    return speedup.high > WIDE * speedup.low


def why_unknown(now: Interval | None, recorded: Interval | None, why_not: str = "") -> str:
    """Return why it cannot be decided whether a speed-up holds; empty if it can.

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
