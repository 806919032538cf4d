"""Handling of an existing bundle: it is reused if nothing changed, and a faster one is replaced on request only.

A resumed run with no trials left to run returns the recorded result instead of measuring again.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.core.console import duration
from autotune.core.errors import BundleError, OptionError
from autotune.core.winner_time import WinnerTime, interference_of, winner_time
from autotune.registry import load_baseline
from autotune.store.bundle import PAYLOAD, TAGGED, digest, read_bundle
from autotune.store.manifest import MANIFEST_FILE, Manifest, parse_manifest, read_bytes
from autotune.store.sessions import recorded_figures, recorded_quiet
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions, parse_command
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.record import versions
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.summary import Searched

MANIFEST_SHA256 = "manifest_sha256"  # key in a summary: hash of the run's manifest, which has the hashes of all files
FREE = ("trials", "seconds", "timeout", "jobs", "cold", "anew")  # options without effect once the same trials were run


def earlier_result(
    run: Run, searched: Searched, store: Store, folder: Path, options: TuneOptions, *, least_floor: float = 0.0
) -> TuneResult | None:
    """Return the result of an earlier run, where this run would only repeat its measurements.

    Args:
        run: The run.
        searched: Result of its search.
        store: Store of the search, with the summaries of earlier runs.
        folder: Folder of the bundle.
        options: Options as recorded in the bundle's command.
        least_floor: Lower bound of the noise floor, from the user's own measurement.

    Returns:
        The recorded result; `None` if a trial was run now, if store, bundle, options, machine or versions differ from
        those of the earlier run, or if its times are invalid.
    """
    if options.anew or searched.ran.evaluated:
        return None
    summaries = [each for each in store.summaries() if each["payload"] == run.payload.name]
    target = folder_of(summaries[-1], folder) if summaries else None
    if target is None or summaries[-1]["unsteady"]:
        return None
    summary = summaries[-1]
    outcomes = Counter(trial.outcome for search in searched.searches for trial in search.trials)
    same = (
        summary["trials"] == dict(outcomes)
        and summary["machine"]["fingerprint"] == run.machine.fingerprint
        and summary["noise_floor"] >= least_floor
        and is_unchanged(run, target, options)
    )
    return replace(TuneResult.from_json(summary), bundle=str(target)) if same else None


def folder_of(summary: dict[str, Any], folder: Path) -> Path | None:
    """Return the folder with the bundle of a summary: the requested one, or the one for slower bundles; else `None`.

    Args:
        summary: Summary of a run.
        folder: Requested folder of the bundle.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return None
    for candidate in (folder, slower_folder(folder)):
        with suppress(OSError):  # no bundle
            if digest((candidate / MANIFEST_FILE).read_bytes()) == summary.get(MANIFEST_SHA256):
                return candidate
    return None


def is_unchanged(run: Run, folder: Path, options: TuneOptions) -> bool:
    """Return whether a folder has a valid bundle of this payload with the same options, versions and baseline."""
    try:
        bundle = read_bundle(folder, run.payload)
        then = parse_command(bundle.manifest.command)
    except (BundleError, OptionError):  # the bundle is then measured and written again
        return False
    manifest = bundle.manifest
    return (
        bundle.texts[TAGGED] == run.parts.payload.text
        and manifest.versions == versions()
        and manifest.baseline.pipeline == load_baseline(options.baseline).pipeline
        and replace(then, **{name: getattr(options, name) for name in FREE}) == options
    )


SLOWER = "slower"  # sibling folder of a bundle's, one level down: commands that take the newest bundle ignore it


@dataclass(frozen=True)
class BundleTarget:
    """Destination of a bundle.

    Attributes:
        folder: Folder to write to.
        note: Sentence on the existing bundle in the requested folder; empty where there is none.
    """

    folder: Path
    note: str = ""


def choose_target(folder: Path, new: Manifest, *, unsteady: str, floor: float, anew: bool) -> BundleTarget:
    """Choose the destination of a bundle, and describe what happens to an existing one.

    Args:
        folder: Requested folder.
        new: Manifest of the new bundle.
        unsteady: Reason why the new bundle's times are invalid; empty if they are valid.
        floor: Noise floor, a relative difference.
        anew: Whether the new bundle replaces a faster one, too.
    """
    try:
        path = folder / MANIFEST_FILE
        old = parse_manifest(read_bytes(path), str(path))
    except BundleError:  # there is no bundle, or none that this version can read
        return BundleTarget(folder)
    quiet = min(filter(None, (recorded_quiet(old), recorded_quiet(new))), default=None)
    then, now = time_of(old, quiet), time_of(new, quiet)
    steady = not interference_of(*samples_of(old), quiet).is_large
    was = duration(recorded_figures(old).best_seconds) if steady else "a time that was not measurable"
    stays = steady and is_same_work(old, new) and is_faster(then, now, unsteady, floor)
    if anew or not stays:
        return BundleTarget(folder, f"replaces {folder}, a bundle of {old.payload} with {was}")
    here = "cannot be timed here and now" if unsteady else f"takes {duration(recorded_figures(new).best_seconds)}"
    slower = slower_folder(folder)
    return BundleTarget(
        slower, f"{folder} stays, with {was}; the new bundle {here} and goes to {slower}; --anew replaces"
    )


def slower_folder(folder: Path) -> Path:
    """Return the folder for a bundle that is slower than the existing one."""
    return folder.parent / SLOWER / folder.name


def time_of(manifest: Manifest, quiet: float | None) -> WinnerTime:
    """Return the drift-normalised time of a bundle's winner over all sessions."""
    return winner_time(*samples_of(manifest), quiet)


def samples_of(manifest: Manifest) -> tuple[list[float], list[float]]:
    """Return the seconds a call of a bundle's winner over all sessions, and of the FMA kernel beside it."""
    seconds = [each for session in manifest.samples for each in session.best_seconds]
    return seconds, [each for session in manifest.samples for each in session.reference_seconds]


def is_same_work(old: Manifest, new: Manifest) -> bool:
    """Return whether two bundles have the same payload, cases, machine and error budget."""
    return (
        old.sha256[PAYLOAD] == new.sha256[PAYLOAD]
        and old.cases == new.cases
        and old.machine == new.machine
        and (old.budget.error if old.budget else 0.0) == (new.budget.error if new.budget else 0.0)
    )


def is_faster(then: WinnerTime, now: WinnerTime, unsteady: str, floor: float) -> bool:
    """Return whether a recorded time is better by more than the noise floor; always if the new one is invalid."""
    return bool(unsteady) or then.seconds.high * (1 + floor) < now.seconds.low
