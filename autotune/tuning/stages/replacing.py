"""Which folder a bundle goes to: a faster one that was recorded earlier is not replaced unless that is asked for."""

from dataclasses import dataclass
from pathlib import Path

from autotune.core.console import duration
from autotune.core.errors import BundleError
from autotune.core.winner_time import WinnerTime, interference_of, winner_time
from autotune.store.bundle import PAYLOAD
from autotune.store.manifest import MANIFEST_FILE, Manifest, parse_manifest, read_bytes
from autotune.store.sessions import recorded_figures, recorded_quiet

SLOWER = "slower"  # folder beside a bundle's, one level down: verbs that take a folder's newest bundle do not see it


@dataclass(frozen=True)
class BundleTarget:
    """Where a bundle goes.

    Attributes:
        folder: Folder to write to.
        note: The outcome of the bundle that the folder asked for holds, a sentence; empty where it holds none.
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
