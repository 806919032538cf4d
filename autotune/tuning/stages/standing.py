"""What becomes of the bundle in a folder: a faster one is not replaced unless that is asked for, and one may stand.

A resume that has nothing left to run need not measure what was measured and recorded.
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

MANIFEST_SHA256 = "manifest_sha256"  # in a summary: the manifest that the run wrote, which has the hashes of all files
FREE = ("trials", "seconds", "timeout", "jobs", "cold", "anew")  # with the same trials run, no result depends on them


def standing_result(
    run: Run, searched: Searched, store: Store, folder: Path, options: TuneOptions, *, least_floor: float = 0.0
) -> TuneResult | None:
    """What an earlier run recorded, where this one would measure the same again.

    Args:
        run: The run.
        searched: What its search gave.
        store: Store that the search read, with the summaries of earlier runs.
        folder: Folder that the bundle is for.
        options: Options as the bundle's command would record them.
        least_floor: Relative differences below it are ties, as the user's own measurement of noise has it.

    Returns:
        The recorded result; `None` where a trial was run now, or where store, bundle, options, machine or versions are
        not those of the run that recorded it, or where that one's times say nothing.
    """
    if options.anew or searched.ran.evaluated:
        return None
    summaries = [each for each in store.summaries() if each["payload"] == run.payload.name]
    held = folder_of(summaries[-1], folder) if summaries else None
    if held is None or summaries[-1]["unsteady"]:
        return None
    summary = summaries[-1]
    outcomes = Counter(trial.outcome for search in searched.searches for trial in search.trials)
    same = (
        summary["trials"] == dict(outcomes)
        and summary["machine"]["fingerprint"] == run.machine.fingerprint
        and summary["noise_floor"] >= least_floor
        and is_unchanged(run, held, options)
    )
    return replace(TuneResult.from_json(summary), bundle=str(held)) if same else None


def folder_of(summary: dict[str, Any], folder: Path) -> Path | None:
    """The folder that holds the bundle of a summary: the one asked for, or that beside a faster bundle.

    Args:
        summary: Summary of a run.
        folder: Folder that the bundle is for.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return None
    for held in (folder, slower_folder(folder)):
        with suppress(OSError):  # no bundle
            if digest((held / MANIFEST_FILE).read_bytes()) == summary.get(MANIFEST_SHA256):
                return held
    return None


def is_unchanged(run: Run, folder: Path, options: TuneOptions) -> bool:
    """Whether a folder holds a whole bundle of this payload, made by the same options, versions and rules."""
    try:
        bundle = read_bundle(folder, run.payload)
        then = parse_command(bundle.manifest.command)
    except (BundleError, OptionError):  # then it is measured and written anew
        return False
    manifest = bundle.manifest
    return (
        bundle.texts[TAGGED] == run.parts.payload.text
        and manifest.versions == versions()
        and manifest.baseline.pipeline == load_baseline(options.baseline).pipeline
        and replace(then, **{name: getattr(options, name) for name in FREE}) == options
    )


SLOWER = "slower"  # folder beside a bundle's, one level down: verbs that take a folder's newest bundle do not see it


@dataclass(frozen=True)
class BundleTarget:
    """Where a bundle goes.

    Attributes:
        folder: Folder to write to.
        note: What becomes of the bundle that the folder asked for holds, a sentence; empty where it holds none.
    """

    folder: Path
    note: str = ""


def choose_target(folder: Path, new: Manifest, *, unsteady: str, floor: float, anew: bool) -> BundleTarget:
    """Where to write a bundle, and what to say of the one that is there.

    Args:
        folder: Folder that was asked for.
        new: Manifest of the new bundle.
        unsteady: Why the new bundle's times say nothing; empty where they do.
        floor: Relative differences below it are noise.
        anew: Whether the new bundle replaces a faster one, too.
    """
    try:
        path = folder / MANIFEST_FILE
        old = parse_manifest(read_bytes(path), str(path))
    except BundleError:  # none, or none that this version reads: there is nothing to compare
        return BundleTarget(folder)
    quiet = min(filter(None, (recorded_quiet(old), recorded_quiet(new))), default=None)
    then, now = time_of(old, quiet), time_of(new, quiet)
    steady = not interference_of(*samples_of(old), quiet).is_large
    was = duration(recorded_figures(old).best_seconds) if steady else "a time that was not measurable"
    stays = steady and is_same_work(old, new) and is_faster(then, now, unsteady, floor)
    if anew or not stays:
        return BundleTarget(folder, f"replaces {folder}, a bundle of {old.payload} with {was}")
    here = "cannot be timed here and now" if unsteady else f"takes {duration(recorded_figures(new).best_seconds)}"
    kept = slower_folder(folder)
    return BundleTarget(kept, f"{folder} stays, with {was}; the new bundle {here} and goes to {kept}; --anew replaces")


def slower_folder(folder: Path) -> Path:
    """Where a bundle goes that is slower than the one its folder holds."""
    return folder.parent / SLOWER / folder.name


def time_of(manifest: Manifest, quiet: float | None) -> WinnerTime:
    """The time of a bundle's winner over all of its sessions, the drift divided out."""
    return winner_time(*samples_of(manifest), quiet)


def samples_of(manifest: Manifest) -> tuple[list[float], list[float]]:
    """Seconds a call of a bundle's winner over all of its sessions, and of the FMA kernel beside it."""
    seconds = [each for session in manifest.samples for each in session.best_seconds]
    return seconds, [each for session in manifest.samples for each in session.reference_seconds]


def is_same_work(old: Manifest, new: Manifest) -> bool:
    """Return whether two bundles compute the same, as exactly, on the same machine."""
    return (
        old.sha256[PAYLOAD] == new.sha256[PAYLOAD]
        and old.cases == new.cases
        and old.machine == new.machine
        and (old.budget.error if old.budget else 0.0) == (new.budget.error if new.budget else 0.0)
    )


def is_faster(then: WinnerTime, now: WinnerTime, unsteady: str, floor: float) -> bool:
    """Return whether a recorded time is better by more than noise; always where the new one says nothing."""
    return bool(unsteady) or then.seconds.high * (1 + floor) < now.seconds.low
