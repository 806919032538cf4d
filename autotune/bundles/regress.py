"""Regression check: measure bundles again, each relative to its baseline, and find slower, wrong or stale ones."""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from time import sleep

from autotune.bundles.candidates import (
    differences_now,
    lacks_reference,
    recorded_candidate,
    recorded_machine,
    why_unknown_here,
)
from autotune.bundles.finding import Look, RegressionFinding
from autotune.bundles.impossible import why_impossible
from autotune.bundles.regress_options import RegressOptions
from autotune.bundles.timing import Timing, expected_seconds, time_bundle
from autotune.bundles.verdict import (
    BASELINE,
    FMA_KERNEL,
    LOOKS,
    RegressionVerdict,
    against,
    conclude,
    is_settled,
    quiet_speedup,
)
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError, MachineError
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import VARIABLE, are_emulated
from autotune.core.listener import SILENT, Listener
from autotune.core.trial import INCONCLUSIVE
from autotune.store.bundle import BundleFiles, read_bundle, write_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of
from autotune.tuning.stages.record import versions
from autotune.worker.bench.disturbance import Watch
from autotune.worker.bench.proof import hash_stages
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.worker import Worker

SESSIONS, QUICK_SESSIONS = 7, 5  # processes needed for an alarm
EFFORT = Effort(samples=60, seconds=3.0, sample_seconds=0.003)
QUICK_EFFORT = Effort(samples=40, seconds=1.5, sample_seconds=0.003)
QUICK_SECONDS = 75.0  # after this, no further bundle is started
QUICK_END = 115.0  # no look is started that would end after this
FIRST_PAUSE = 10.0  # seconds before the second look; doubled for each further one
MOST_LOOKS = 5
QUICK_CALL = 0.5  # limit of the baseline's time, in seconds per call


def bundles_in(folder: Path) -> list[Path]:
    """Return all bundles in a folder of bundles, sorted by name.

    Raises:
        BundleError: There is none.
    """
    folders = sorted(manifest.parent for manifest in folder.glob(f"*/{MANIFEST_FILE}"))
    if not folders:
        others = sorted({str(path.parents[1]) for path in Path().glob(f"*/*/{folder.name}/*/{MANIFEST_FILE}")})
        fix = f"name one of those in {' or '.join(others)}" if others else "name bundles"
        raise BundleError(f"there must be bundles to check, {folder} holds none; run autotune tune PAYLOAD, or {fix}")
    return folders


def regress(folders: Sequence[Path], options: RegressOptions, listener: Listener = SILENT) -> list[RegressionFinding]:
    """Check bundles, the fastest first.

    Args:
        folders: Folders of the bundles.
        options: Options of the check.
        listener: Listener that is notified of every process that starts to measure.

    Raises:
        BundleError: A bundle is refused.
        MachineError: Times are to be recorded while tiles are emulated.
    """
    if options.update and are_emulated():
        raise MachineError(f"times of emulated tiles are no record: unset {VARIABLE} to run `regress --update`")
    start = time.perf_counter()
    bundles = sorted((read_bundle(folder) for folder in folders), key=cost)
    findings = []
    for bundle in bundles:
        since = time.perf_counter()
        late = options.quick and (since - start > QUICK_SECONDS or cost(bundle) > QUICK_CALL)
        until = start + QUICK_END if options.quick and options.patience is None else inf
        finding = left_out(bundle) if late else check(bundle, options, listener, until)
        findings.append(replace(finding, seconds=time.perf_counter() - since))
    return findings


def cost(bundle: BundleFiles) -> float:
    """Return the seconds per call of the timed part of a bundle's baseline, or of its schedule without a baseline."""
    session, part = bundle.manifest.samples[0], bundle.manifest.baseline.part
    return median(session.baseline_seconds) / part if session.baseline_seconds else median(session.best_seconds)


def left_out(bundle: BundleFiles) -> RegressionFinding:
    """Return the finding for a bundle that was skipped because of the time limit."""
    payload = bundle.payload
    return RegressionFinding(
        str(bundle.folder),
        payload.name,
        "inconclusive",
        "left out by --quick",
        oracle=payload.oracle,
        unproved=payload.unproved,
    )


def check(bundle: BundleFiles, options: RegressOptions, listener: Listener, until: float = inf) -> RegressionFinding:
    """Measure a bundle; while the result is inconclusive, pause and measure again, as long as patience lasts.

    Args:
        bundle: The bundle.
        options: Options of the check.
        listener: Listener that is notified of every process that starts to measure, and of every pause.
        until: Time of the performance counter at which the last look must end.
    """
    machine, manifest = recorded_machine(bundle), bundle.manifest
    finding = RegressionFinding(
        str(bundle.folder),
        bundle.payload.name,
        "inconclusive",
        f"no baseline runs ({manifest.baseline.why_not})" if manifest.baseline.why_not else "no baseline runs",
        recorded=quiet_speedup(manifest.samples, manifest.baseline.part_error),
        notes=differences_now(bundle, machine),
        oracle=bundle.payload.oracle,
        unproved=bundle.payload.unproved,
    )
    looks: list[Look] = []
    for pause in (*pauses_within(0.0 if options.update else options.wait), inf):
        start = time.perf_counter()
        finding, look = look_once(finding, bundle, machine, options, listener)
        if look is None:
            return finding
        looks.append(look)
        finding = conclude_looks(finding, bundle, looks, options)
        now = time.perf_counter()
        if finding.verdict != "inconclusive" or pause == inf or now + pause + (now - start) > until:
            break
        listener.stage(f"{finding.payload}: {look.saw}; waits {pause:.0f} s and looks again")
        sleep(pause)
    sessions = looks[-1].sessions
    if options.update:
        accept(bundle, sessions, machine)
    saw = tuple(f"look {number}: {look.saw}" for number, look in enumerate(looks, 1)) if len(looks) > 1 else ()
    return replace(finding, notes=(*finding.notes, *saw))


def look_once(
    finding: RegressionFinding, bundle: BundleFiles, machine: Machine, options: RegressOptions, listener: Listener
) -> tuple[RegressionFinding, Look | None]:
    """Measure a bundle in consecutive processes until this look is settled; the look is `None` if it cannot run."""
    effort, most = (QUICK_EFFORT, QUICK_SESSIONS) if options.quick else (EFFORT, SESSIONS)
    sessions: list[ProcessTimes] = []
    watch = Watch()
    finding = replace(finding, verdict="inconclusive")
    while not is_settled(finding.verdict, len(sessions), most) or (options.update and len(sessions) < most):
        listener.stage(f"{finding.payload}: process {len(sessions) + 1} of up to {most}")
        timing = measure_once(bundle, machine, effort)
        if timing.session is None:
            verdict: RegressionVerdict = "inconclusive" if timing.ours.outcome in INCONCLUSIVE else "wrong"
            why = f"{timing.ours.outcome}: {timing.ours.diagnostic}"
            return replace(finding, verdict=verdict, why=why), None
        if why := why_impossible(bundle, machine, timing.session, effort):
            return replace(finding, verdict="wrong", why=why), None
        if not timing.session.baseline_seconds:
            return finding, None
        sessions.append(timing.session)
        finding = assess(finding, bundle, [sessions], options.factor, needed=1)
    busy = watch.read().loudest
    suffix = f", beside {busy}" if busy else ""
    return finding, Look(tuple(sessions), f"{finding.why}{suffix}")


def pauses_within(patience: float) -> list[float]:
    """Return the pauses before the second and further looks in seconds, doubling, with a sum of at most `patience`.

    Example:
        >>> pauses_within(60)
        [10.0, 20.0]
    """
    pauses = [FIRST_PAUSE * 2**index for index in range(MOST_LOOKS - 1)]
    return [pause for index, pause in enumerate(pauses, 1) if sum(pauses[:index]) <= patience]


def conclude_looks(
    finding: RegressionFinding, bundle: BundleFiles, looks: Sequence[Look], options: RegressOptions
) -> RegressionFinding:
    """Return a finding with the verdict of all looks."""
    needed = 1 if options.wait == 0 or options.update else LOOKS
    return assess(finding, bundle, [look.sessions for look in looks], options.factor, needed)


def measure_once(bundle: BundleFiles, machine: Machine, effort: Effort) -> Timing:
    """Build and time a bundle in a new process; retry once on failure."""
    for _ in range(2):
        with Worker(expected_seconds(bundle), threads=machine.threads) as worker:
            timing = time_bundle(bundle, machine, worker, effort)
        if timing.session is not None:
            break
    return timing


def why_stale(bundle: BundleFiles) -> str:
    """Return why a bundle's figures are not comparable here; empty if they are."""
    manifest = bundle.manifest
    if lacks_reference(bundle):
        return why_unknown_here(bundle)
    if manifest.fingerprint != recorded_machine(bundle).fingerprint:
        if are_emulated():
            return f"it was recorded on another machine, and {VARIABLE} has tiles emulated on this one; unset it"
        return "it was recorded on another machine; `autotune regress --update` records this one"
    return ""


def assess(
    finding: RegressionFinding,
    bundle: BundleFiles,
    looks: Sequence[Sequence[ProcessTimes]],
    factor: float,
    needed: int,
) -> RegressionFinding:
    """Return a finding with the verdict on the samples of all looks so far; its figures are of the same samples."""
    recorded, error = bundle.manifest.samples, bundle.manifest.baseline.part_error
    finding = replace(finding, samples=tuple(looks[-1]), speedup=quiet_speedup(looks[-1], error))
    if stale := why_stale(bundle):
        return replace(finding, verdict="stale", why=stale)
    if bundle.manifest.speedup is None:
        return replace(finding, why="it was recorded without a baseline")
    judgement = conclude(recorded, looks, factor, needed)
    why = f"{abs(judgement.slowdown - 1):.1%} {'slower' if judgement.slowdown > 1 else 'faster'} against {judgement.by}"
    yardstick = FMA_KERNEL if judgement.by == BASELINE else BASELINE
    ratio = against(yardstick, recorded, judgement.now)
    if ratio is not None:
        why += f", {ratio - 1:+.1%} in time against {yardstick}"
    if judgement.verdict == "inconclusive":
        why = too_noisy(judgement.slowdown, judgement.margin)
    return replace(
        finding,
        verdict=judgement.verdict,
        why=why,
        slowdown=judgement.slowdown,
        speedup=quiet_speedup(judgement.now, error),
        samples=judgement.now,
    )


def too_noisy(slowdown: float, margin: float) -> str:
    """Describe an inconclusive look: the range of the schedule's speed, relative to the recorded one.

    Example:
        >>> too_noisy(1.0, 0.9)
        'between 0.53x and 1.9x of the recorded speed: too noisy to judge'
    """
    low, high = 1 / (slowdown * (1 + margin)), (1 + margin) / slowdown
    return f"between {low:.2g}x and {high:.2g}x of the recorded speed: too noisy to judge"


def accept(bundle: BundleFiles, sessions: Sequence[ProcessTimes], machine: Machine) -> None:
    """Rewrite a bundle with the current samples, machine, versions and IR hashes."""
    with Worker(MODEL_SECONDS, threads=machine.threads) as worker:
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
    write_bundle(bundle.folder, bundle.files, manifest)
