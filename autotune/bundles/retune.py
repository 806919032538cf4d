"""Retune: a sweep of a bundle's payload on this machine, warm from the bundle's configs."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autotune.core.errors import BundleError
from autotune.core.listener import SILENT, Listener
from autotune.core.objective import Objective
from autotune.store.bundle import BundleFiles
from autotune.store.manifest import Manifest
from autotune.store.store import Store
from autotune.tuning.own import own_of
from autotune.tuning.result import TuneResult
from autotune.tuning.tune import TuneOptions, tune
from autotune.tuning.warm_start import known_in
from autotune.worker.reading import ScriptFile


def retune_bundle(
    bundle: BundleFiles, store: Store, target: Path, trials: int, listener: Listener = SILENT
) -> TuneResult:
    """Tune a bundle's payload again, with the threads, families, back ends, budget and objective that were asked for.

    Args:
        bundle: The bundle.
        store: Receives every trial.
        target: Folder to write the new bundle to.
        trials: Candidates to run.
        listener: Notified of stages and trials.

    Raises:
        BundleError: The new bundle cannot be written, or this one names code of files.
    """
    manifest = bundle.manifest
    own = own_of(bundle)
    options = TuneOptions(
        trials=trials,
        seed=manifest.seed,
        baseline=manifest.baseline.name,
        known=tuple(known_in(manifest, str(bundle.folder))),
        script=ScriptFile(own.script.source, own.script.text) if own is not None else None,
        tasks=own.tasks if own is not None else "*",
        **asked(manifest),
    )
    payload = replace(bundle.payload, error=0.0)  # the budget is spent anew
    return tune(payload if own is not None else replace(payload, schedule=""), store, target, options, listener)


def asked(manifest: Manifest) -> dict[str, Any]:
    """What was asked of the search that found a bundle, as `TuneOptions` takes it.

    Raises:
        BundleError: A family or a back end is code of a file, which a bundle may name, but not run.
    """
    search, budget = manifest.search, manifest.budget
    if search is None:  # of an older release
        spent = {"error": budget.error, "agreement": budget.agreement} if budget is not None else {}
        return {"threads": manifest.machine.threads, **spent}
    for name in (search.family, *search.beside, *search.backends):
        if ":" in name:
            raise BundleError(
                f"a bundle must name installed families and back ends to be tuned again, it names {name}; "
                "run the command that its manifest.json has"
            )
    found = asdict(search)
    weight = found.pop("weight")
    return {**found, "objective": Objective(search.objective, weight)}
