"""Retune: a sweep of a bundle's payload on this machine, warm from the bundle's configs."""

from pathlib import Path

from autotune.bundle import read_bundle
from autotune.known import known_in
from autotune.result import TuneResult
from autotune.store import Store
from autotune.tune import Options, Progress, tune


def retune_bundle(folder: Path, store: Store, target: Path, trials: int, progress: Progress) -> TuneResult:
    """Tune a bundle's payload again.

    Args:
        folder: The bundle.
        store: Receives every trial.
        target: Folder to write the new bundle to.
        trials: Candidates to run.
        progress: Who watches.

    Raises:
        BundleError: The bundle is refused, or the new one cannot be written.
    """
    bundle = read_bundle(folder)
    manifest = bundle.manifest
    known = tuple(known_in(manifest, str(folder)))
    options = Options(trials=trials, seed=manifest.seed, baseline=manifest.baseline.name, known=known)
    return tune(bundle.payload, store, target, options, progress)
