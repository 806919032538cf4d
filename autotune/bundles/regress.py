"""Regress: measure bundles again, each against its baseline, and say which have become slower, wrong or stale."""

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
from autotune.core.trial import UNTOLD
from autotune.store.bundle import BundleFiles, read_bundle, write_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of
from autotune.tuning.stages.record import versions
from autotune.worker.bench.disturbance import Watch
from autotune.worker.bench.proof import hash_stages
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.worker import Worker

SESSIONS, QUICK_SESSIONS = 7, 5  # processes before an alarm
EFFORT = Effort(samples=60, seconds=3.0, sample_seconds=0.003)
QUICK_EFFORT = Effort(samples=40, seconds=1.5, sample_seconds=0.003)
QUICK_SECONDS = 75.0  # after this no further bundle is begun
QUICK_END = 115.0  # no look is begun that would end after this
FIRST_PAUSE = 10.0  # seconds before the second look; before the third twice as long, and so on
MOST_LOOKS = 5
QUICK_CALL = 0.5  # seconds a call of the baseline, at most


def bundles_in(folder: Path) -> list[Path]:
    """Every bundle in a folder of bundles, by name.

    Raises:
        BundleError: There is none.
    """
    found = sorted(manifest.parent for manifest in folder.glob(f"*/{MANIFEST_FILE}"))
    if not found:
        others = sorted({str(path.parents[1]) for path in Path().glob(f"*/*/{folder.name}/*/{MANIFEST_FILE}")})
        way = f"name one of those in {' or '.join(others)}" if others else "name bundles"
        raise BundleError(f"there must be bundles to check, {folder} holds none; run autotune tune PAYLOAD, or {way}")
    return found


def regress(folders: Sequence[Path], options: RegressOptions, listener: Listener = SILENT) -> list[RegressionFinding]:
    """Check bundles, the quickest first.

    Args:
        folders: The bundles.
        options: Options of the check.
        listener: Told of every process that begins to measure.

    Raises:
        BundleError: One of them is refused.
        MachineError: Times are to be recorded where tiles are emulated.
    """
    if options.update and are_emulated():
        raise MachineError(f"times of emulated tiles are no record: unset {VARIABLE} to run `regress --update`")
    begun = time.perf_counter()
    bundles = sorted((read_bundle(folder) for folder in folders), key=cost)
    found = []
    for bundle in bundles:
        since = time.perf_counter()
        late = options.quick and (since - begun > QUICK_SECONDS or cost(bundle) > QUICK_CALL)
        until = begun + QUICK_END if options.quick and options.patience is None else inf
        finding = left_out(bundle) if late else check(bundle, options, listener, until)
        found.append(replace(finding, seconds=time.perf_counter() - since))
    return found


def cost(bundle: BundleFiles) -> float:
    """Seconds of a call of what a bundle times of its baseline, or of its schedule where it has none."""
    session, part = bundle.manifest.samples[0], bundle.manifest.baseline.part
    return median(session.baseline_seconds) / part if session.baseline_seconds else median(session.best_seconds)


def left_out(bundle: BundleFiles) -> RegressionFinding:
    """Finding for a bundle that the time limit left out."""
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
    """Look at a bundle; where it seems slower or is inconclusive, wait and look again, as long as patience lasts.

    Args:
        bundle: The bundle.
        options: Options of the check.
        listener: Told of every process that begins to measure, and of every wait.
        until: Time of the performance counter after which no further look is begun.
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
        begun = time.perf_counter()
        finding, look = look_once(finding, bundle, machine, options, listener)
        if look is None:
            return finding
        looks.append(look)
        finding = conclude_looks(finding, bundle, looks, options)
        now = time.perf_counter()
        if finding.verdict != "inconclusive" or pause == inf or now + pause + (now - begun) > until:
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
    """Measure a bundle in one process after another until it is clear what this look says; `None` if it cannot run."""
    effort, most = (QUICK_EFFORT, QUICK_SESSIONS) if options.quick else (EFFORT, SESSIONS)
    sessions: list[ProcessTimes] = []
    watch = Watch()
    finding = replace(finding, verdict="inconclusive")
    while not is_settled(finding.verdict, len(sessions), most) or (options.update and len(sessions) < most):
        listener.stage(f"{finding.payload}: process {len(sessions) + 1} of up to {most}")
        timing = measure_once(bundle, machine, effort)
        if timing.session is None:
            verdict: RegressionVerdict = "inconclusive" if timing.ours.outcome in UNTOLD else "wrong"
            why = f"{timing.ours.outcome}: {timing.ours.diagnostic}"
            return replace(finding, verdict=verdict, why=why), None
        if why := why_impossible(bundle, machine, timing.session, effort):
            return replace(finding, verdict="wrong", why=why), None
        if not timing.session.baseline_seconds:
            return finding, None
        sessions.append(timing.session)
        finding = assess(finding, bundle, [sessions], options.factor, needed=1)
    busy = watch.read().loudest
    beside = f", beside {busy}" if busy else ""
    return finding, Look(tuple(sessions), f"{finding.why}{beside}")


def pauses_within(patience: float) -> list[float]:
    """Seconds to wait before the second look and those after it, each twice the one before, as patience lasts.

    Example:
        >>> pauses_within(60)
        [10.0, 20.0]
    """
    pauses = [FIRST_PAUSE * 2**index for index in range(MOST_LOOKS - 1)]
    return [pause for index, pause in enumerate(pauses, 1) if sum(pauses[:index]) <= patience]


def conclude_looks(
    finding: RegressionFinding, bundle: BundleFiles, looks: Sequence[Look], options: RegressOptions
) -> RegressionFinding:
    """A finding with what all looks say."""
    needed = 1 if options.wait == 0 or options.update else LOOKS
    return assess(finding, bundle, [look.sessions for look in looks], options.factor, needed)


def measure_once(bundle: BundleFiles, machine: Machine, effort: Effort) -> Timing:
    """Build and time a bundle in a process of its own; what fails is tried once more."""
    for _ in range(2):
        with Worker(expected_seconds(bundle), threads=machine.threads) as worker:
            timing = time_bundle(bundle, machine, worker, effort)
        if timing.session is not None:
            break
    return timing


def why_stale(bundle: BundleFiles) -> str:
    """Why a bundle's figures say nothing here; empty if they do."""
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
    """A finding with what the samples of all looks so far say; all of its figures are of the same ones."""
    recorded, error = bundle.manifest.samples, bundle.manifest.baseline.part_error
    finding = replace(finding, samples=tuple(looks[-1]), speedup=quiet_speedup(looks[-1], error))
    if stale := why_stale(bundle):
        return replace(finding, verdict="stale", why=stale)
    if bundle.manifest.speedup is None:
        return replace(finding, why="it was recorded without a baseline")
    found = conclude(recorded, looks, factor, needed)
    why = f"{abs(found.slowdown - 1):.1%} {'slower' if found.slowdown > 1 else 'faster'} against {found.by}"
    other = FMA_KERNEL if found.by == BASELINE else BASELINE
    beside = against(other, recorded, found.now)
    if beside is not None:
        why += f", {beside - 1:+.1%} in time against {other}"
    if found.verdict == "inconclusive":
        why = too_noisy(found.slowdown, found.margin)
    return replace(
        finding,
        verdict=found.verdict,
        why=why,
        slowdown=found.slowdown,
        speedup=quiet_speedup(found.now, error),
        samples=found.now,
    )


def too_noisy(slowdown: float, margin: float) -> str:
    """What an inconclusive look says: between which speeds the schedule is, as parts of the recorded one.

    Example:
        >>> too_noisy(1.0, 0.9)
        'between 0.53x and 1.9x of the recorded speed: too noisy to judge'
    """
    low, high = 1 / (slowdown * (1 + margin)), (1 + margin) / slowdown
    return f"between {low:.2g}x and {high:.2g}x of the recorded speed: too noisy to judge"


def accept(bundle: BundleFiles, sessions: Sequence[ProcessTimes], machine: Machine) -> None:
    """Write a bundle anew with what was measured now, here, with this compiler."""
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
