"""Retuning: a sweep of a bundle's payload on this machine with the bundle's options, starting from its configs."""

from dataclasses import replace
from pathlib import Path

from autotune.core.errors import AutotuneError, BundleError
from autotune.core.listener import SILENT, Listener
from autotune.store.bundle import BundleFiles
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions, parse_command
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.opening import Start
from autotune.tuning.stages.user_script import own_of
from autotune.tuning.stages.warm_start import known_in
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import ScriptFile


def retune_bundle(
    bundle: BundleFiles, store: Store, target: Path, trials: int, listener: Listener = SILENT
) -> TuneResult:
    """Tune a bundle's payload again.

    Args:
        bundle: The bundle.
        store: Store that every trial is recorded in.
        target: Folder to write the new bundle to.
        trials: Number of candidates to run.
        listener: Listener of stages and trials.

    Raises:
        BundleError: The new bundle cannot be written; or the bundle was tuned with code from a file, which a bundle
            must not load.
    """
    manifest = bundle.manifest
    own = own_of(bundle)
    options = recorded_options(bundle)
    start = Start(
        known=tuple(known_in(manifest, str(bundle.folder))),
        script=ScriptFile(own.script.source, own.script.text) if own is not None else None,
    )
    payload = replace(bundle.payload, error=0.0)  # the options set the error budget again
    payload = payload if own is not None else replace(payload, schedule="")
    return tune(payload, store, target, replace(options, trials=trials), listener, start=start)


def recorded_options(bundle: BundleFiles) -> TuneOptions:
    """Return the options that a bundle was tuned with, except its script and rules, which are in the bundle.

    Raises:
        BundleError: The recorded command is not a `tune` command, or loads code from a file.
    """
    manifest = bundle.manifest
    try:
        options = parse_command(manifest.command)
    except AutotuneError as error:
        raise BundleError(f"{bundle.folder} must record how it was tuned: {error}") from error
    if options.code_files:
        raise BundleError(
            f"a bundle must not name code to run, {bundle.folder} was tuned with {', '.join(options.code_files)}; if "
            f"you trust it, run {' '.join(manifest.command)}"
        )
    return replace(options, seed=manifest.seed, schedule="", rules="", exact=False)
