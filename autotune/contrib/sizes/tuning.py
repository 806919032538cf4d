"""Tuning of a model of any size: each compiled size is tuned as a payload, with its bundle in the folder."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from autotune.contrib.sizes.folder import SizedModel, read_sized, write_sized
from autotune.contrib.sizes.making import grains_of
from autotune.contrib.sizes.paths import bundle_folder, size_folder
from autotune.contrib.sizes.plan import some_requests
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT, Listener
from autotune.registry import rewriter
from autotune.store.folders import home
from autotune.store.store import Store
from autotune.tuning.front import start_of
from autotune.tuning.options import TuneOptions
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import open_payload


def tune_sized(folder: Path, store: str | None, options: TuneOptions, listener: Listener = SILENT) -> SizedModel:
    """Tune every compiled size, and record the seconds of a call of each.

    Each size starts from what is known of similar tasks, including those of the sizes before it.

    Args:
        folder: Folder of the model.
        store: File of trials; by default that of `tune`.
        options: Options of `tune`; the number of trials is for each size.
        listener: Notified of stages and trials.

    Raises:
        AutotuneError: A sweep fails; the sizes tuned before it keep their results.
    """
    model = read_sized(folder)
    rules = rewriter().read(options.rules or None, exact=options.exact)
    with Store.open(store or home() / "store.journal") as opened:
        for each in model.sizes:
            listener.stage(f"tuning {each.name}")
            payload = replace(open_payload(size_folder(folder, each.sizes)), rules=rules)
            start = start_of(payload, options, None, this_machine())
            result = tune(payload, opened, bundle_folder(folder, each.sizes), options, listener, start=start)
            (grain,) = grains_of(folder, model.dims, model.axes, [each.sizes])
            tuned = model.with_size(each.name, result.best_seconds, grain)
            if grain != each.grain and mean_cost(tuned) > mean_cost(model):
                listener.stage(f"{each.name} keeps default schedules, whose loops end at more sizes")
                shutil.rmtree(bundle_folder(folder, each.sizes))
                continue
            model = tuned
            write_sized(folder, model)
    return model


def mean_cost(model: SizedModel) -> float:
    """Return the mean logarithm of the expected times of requests of all sizes."""
    return float(np.log(model.seconds_of(some_requests(model.dims))).mean())
