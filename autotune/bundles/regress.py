"""Regress: measure bundles again, each against its baseline, and say which have become slower, wrong or stale."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from autotune.bundles.candidates import differences_now, recorded_candidate, recorded_pages
from autotune.bundles.replay import Timing, expected_seconds, time_bundle
from autotune.bundles.verdict import ALARMS, RegressionVerdict, against_reference, is_settled, judge
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError
from autotune.core.evaluator import Effort
from autotune.core.listener import SILENT, Listener
from autotune.core.machine import Machine, this_machine
from autotune.core.options import check_real
from autotune.core.stats import Interval
from autotune.core.trial import UNTOLD
from autotune.store.bundle import BundleFiles, read_bundle, write_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of
from autotune.tuning.record import versions
from autotune.worker.limits import MODEL_SECONDS
from autotune.worker.proof import hash_stages
from autotune.worker.worker import Worker

SESSIONS, QUICK_SESSIONS = 7, 5  # processes before an alarm
EFFORT = Effort(samples=60, seconds=3.0, sample_seconds=0.003)
QUICK_EFFORT = Effort(samples=40, seconds=1.5, sample_seconds=0.003)
QUICK_SECONDS = 75.0  # after this no further bundle is begun
LEAST_FACTOR = 1.001  # a slowdown that could be found at all
QUICK_CALL = 0.5  # seconds a call of the baseline, at most


@dataclass(frozen=True)
class RegressOptions:
    """How to look for regressions.

    Attributes:
        factor: A slowdown by this much is to be found.
        quick: End within two minutes; what is left out is inconclusive.
        update: Accept what is measured as the new record.
    """

    factor: float = 1.05
    quick: bool = False
    update: bool = False

    def __post_init__(self) -> None:
        check_real("factor", self.factor, LEAST_FACTOR, 100.0, example=1.05)


@dataclass(frozen=True)
class RegressionFinding:
    """Result of checking one bundle.

    Attributes:
        bundle: Folder of the bundle.
        payload: Spec of the payload that the bundle computes.
        verdict: ``ok``, ``faster``, ``slower``, ``wrong``, ``stale`` or ``inconclusive``.
        why: Reason for the verdict, a sentence.
        slowdown: Recorded speed-up over that of now; `None` unless compared.
        speedup: Speed-up over the baseline measured now, over all sessions, with its 95 % interval.
        recorded: Speed-up over the baseline that the bundle records, with its 95 % interval.
        samples: Raw times in seconds a call, an entry a process.
        notes: Differences from the recording, a sentence each.
        seconds: Wall-clock time of the check, in seconds.
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

    @property
    def alarms(self) -> bool:
        """Whether a gate in CI must fail."""
        return self.verdict in ALARMS

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def bundles_in(folder: Path) -> list[Path]:
    """Every bundle in a folder of bundles, by name.

    Raises:
        BundleError: There is none.
    """
    found = sorted(manifest.parent for manifest in folder.glob(f"*/{MANIFEST_FILE}"))
    if not found:
        raise BundleError(f"there must be bundles to check, {folder} holds none; tune a payload, or name bundles")
    return found


def regress(folders: Sequence[Path], options: RegressOptions, listener: Listener = SILENT) -> list[RegressionFinding]:
    """Check bundles, the quickest first.

    Args:
        folders: The bundles.
        options: Options of the check.
        listener: Told of every process that begins to measure.

    Raises:
        BundleError: One of them is refused.
    """
    begun = time.perf_counter()
    bundles = sorted((read_bundle(folder) for folder in folders), key=cost)
    found = []
    for bundle in bundles:
        since = time.perf_counter()
        late = options.quick and (since - begun > QUICK_SECONDS or cost(bundle) > QUICK_CALL)
        finding = left_out(bundle) if late else check(bundle, options, listener)
        found.append(replace(finding, seconds=time.perf_counter() - since))
    return found


def cost(bundle: BundleFiles) -> float:
    """Seconds of a call of what a bundle times of its baseline, or of its schedule where it has none."""
    session, part = bundle.manifest.samples[0], bundle.manifest.baseline.part
    return median(session.baseline_seconds) / part if session.baseline_seconds else median(session.best_seconds)


def left_out(bundle: BundleFiles) -> RegressionFinding:
    """Finding for a bundle that the time limit left out."""
    return RegressionFinding(str(bundle.folder), bundle.payload.name, "inconclusive", "left out by --quick")


def check(bundle: BundleFiles, options: RegressOptions, listener: Listener) -> RegressionFinding:
    """Measure a bundle in one process after another until it is clear what became of it."""
    machine, manifest = recorded_pages(bundle, this_machine()), bundle.manifest
    effort, most = (QUICK_EFFORT, QUICK_SESSIONS) if options.quick else (EFFORT, SESSIONS)
    notes = differences_now(bundle, machine)
    name, folder = bundle.payload.name, str(bundle.folder)
    finding = RegressionFinding(
        folder, name, "inconclusive", "no baseline runs", recorded=manifest.speedup, notes=notes
    )
    sessions: list[ProcessTimes] = []
    while not is_settled(finding.verdict, len(sessions), most) or (options.update and len(sessions) < most):
        listener.stage(f"{name}: process {len(sessions) + 1} of up to {most}")
        timing = measure_once(bundle, machine, effort)
        if timing.session is None:
            verdict: RegressionVerdict = "inconclusive" if timing.ours.outcome in UNTOLD else "wrong"
            return replace(finding, verdict=verdict, why=f"{timing.ours.outcome}: {timing.ours.diagnostic}")
        if not timing.session.baseline_seconds:
            return finding
        sessions.append(timing.session)
        finding = assess(finding, bundle, sessions, options.factor)
    if options.update:
        accept(bundle, sessions, machine)
    return replace(finding, speedup=speedup_of(sessions, manifest.baseline.part_error), samples=tuple(sessions))


def measure_once(bundle: BundleFiles, machine: Machine, effort: Effort) -> Timing:
    """Build and time a bundle in a process of its own; what fails is tried once more."""
    for _ in range(2):
        with Worker(expected_seconds(bundle)) as worker:
            timing = time_bundle(bundle, machine, worker, effort)
        if timing.session is not None:
            break
    return timing


def why_stale(bundle: BundleFiles) -> str:
    """Why a bundle's figures say nothing here; empty if they do."""
    manifest = bundle.manifest
    if manifest.numerics.oracle == "reference" and bundle.payload.reference is None:
        return "its payload is built otherwise now; tune it again"
    if manifest.fingerprint != this_machine().fingerprint:
        return "it was recorded on another machine; `autotune regress --update` records this one"
    return ""


def assess(
    finding: RegressionFinding, bundle: BundleFiles, sessions: Sequence[ProcessTimes], factor: float
) -> RegressionFinding:
    """A finding with what the samples so far say."""
    recorded = bundle.manifest.samples
    if stale := why_stale(bundle):
        return replace(finding, verdict="stale", why=stale)
    if bundle.manifest.speedup is None:
        return replace(finding, why="it was recorded without a baseline")
    found = judge(recorded, sessions, factor)
    why = f"{abs(found.slowdown - 1):.1%} {'slower' if found.slowdown > 1 else 'faster'} against its baseline"
    beside = against_reference(recorded, sessions)
    if beside is not None:
        why += f", {beside - 1:+.1%} against the FMA kernel"
    if found.verdict == "inconclusive":
        why += f"; give or take {found.margin:.1%}"
    return replace(finding, verdict=found.verdict, why=why, slowdown=found.slowdown)


def accept(bundle: BundleFiles, sessions: Sequence[ProcessTimes], machine: Machine) -> None:
    """Write a bundle anew with what was measured now, here, with this compiler."""
    with Worker(MODEL_SECONDS) as worker:
        hashes = worker.call(hash_stages, Claim(bundle.payload, recorded_candidate(bundle)))
    manifest = replace(
        bundle.manifest,
        samples=tuple(sessions),
        speedup=speedup_of(sessions, bundle.manifest.baseline.part_error),
        machine=machine,
        fingerprint=machine.fingerprint,
        versions=versions(),
        ir_sha256=hashes if isinstance(hashes, dict) else bundle.manifest.ir_sha256,
    )
    write_bundle(bundle.folder, bundle.texts, manifest)
