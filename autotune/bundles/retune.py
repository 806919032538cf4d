"""Retune: a sweep of a bundle's payload on this machine, warm from the bundle's configs."""

from dataclasses import replace
from pathlib import Path

from autotune.core.listener import SILENT, Listener
from autotune.store.bundle import BundleFiles
from autotune.store.store import Store
from autotune.tuning.own import own_of
from autotune.tuning.result import TuneResult
from autotune.tuning.tune import TuneOptions, tune
from autotune.tuning.warm_start import known_in
from autotune.worker.reading import ScriptFile


def retune_bundle(
    bundle: BundleFiles, store: Store, target: Path, trials: int, listener: Listener = SILENT
) -> TuneResult:
    """Tune a bundle's payload again.

    Args:
        bundle: The bundle.
        store: Receives every trial.
        target: Folder to write the new bundle to.
        trials: Candidates to run.
        listener: Notified of stages and trials.

    Raises:
        BundleError: The new bundle cannot be written.
    """
    manifest = bundle.manifest
    known = tuple(known_in(manifest, str(bundle.folder)))
    own = own_of(bundle)
    options = TuneOptions(
        trials=trials,
        seed=manifest.seed,
        baseline=manifest.baseline.name,
        known=known,
        script=ScriptFile(own.script.source, own.script.text) if own is not None else None,
        tasks=own.tasks if own is not None else "*",
    )
    payload = bundle.payload if own is not None else replace(bundle.payload, schedule="")
    return tune(payload, store, target, options, listener)
