"""`tune` with defaults for everything: where trials and the winner go, known configs, noise floor."""

from dataclasses import replace
from pathlib import Path

from autotune.core.listener import SILENT, Listener
from autotune.core.machine import this_machine
from autotune.core.payload import Payload
from autotune.store.places import bundle_folder, home, recorded_folders
from autotune.store.store import Store
from autotune.tuning.own import own_script
from autotune.tuning.result import TuneResult
from autotune.tuning.tunable import TransformScript
from autotune.tuning.tunable import payload as payload_of
from autotune.tuning.tune import TuneOptions
from autotune.tuning.tune import tune as tune_into
from autotune.tuning.warm_start import read_known
from autotune.worker.noise import read_floor
from autotune.worker.reading import ScriptFile


def tune(
    payload: str | Path | Payload,
    *,
    trials: int = 100,
    seconds: float | None = None,
    sampler: str = "tpe",
    seed: int = 0,
    baseline: str = "passes",
    timeout: float = 60.0,
    store: str | Path | None = None,
    bundle: str | Path | None = None,
    cold: bool = False,
    schedule: str | Path | TransformScript | None = None,
    task: str = "*",
    family: str = "",
    listener: Listener = SILENT,
) -> TuneResult:
    """Search schedules for a payload, prove the best right and faster, and write a bundle.

    Called again it resumes: trials in the store are not run twice.

    Args:
        payload: A spec, a path to an ``.mlir`` file, or a payload.
        trials: Candidates to run over all tasks, those in the store counted in.
        seconds: Stop searching after this long; `None` for no bound.
        sampler: ``tpe``, ``random``, ``cmaes`` or ``grid``.
        seed: Seed of the sampler and of the input data.
        baseline: Pass pipeline that speed-ups are quoted against, ``passes`` or ``loops``.
        timeout: Seconds that one candidate may take to compile, verify and measure.
        store: File of trials, or a database URL; by default ``results/MACHINE/store.journal``.
        bundle: Folder for the winner; by default ``results/MACHINE/bundles/PAYLOAD``.
        cold: Ignore the configs that bundles below ``results/`` record.
        schedule: A transform script of one's own, whose open knobs are searched: a file, or `script`'s. By default that
            of the payload's own file, if it holds one.
        task: Which tasks a script of one op is for: a tag, or a pattern with ``*``.
        family: Family of schedules to search, an installed one's name or ``mine.py:FAMILY``.
        listener: Notified of stages and trials.

    Returns:
        What was found; ``result.bundle`` is the folder that `Bundle.read` takes.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
        PayloadError: There is no such payload, or it does not fit the machine.
        SpaceError: There is no such sampler.
        StoreError: The store is damaged, of another format, or cannot be written.
        BundleError: The folder cannot be written, or holds something else.
    """
    wanted, place = payload_of(payload), home()
    known = () if cold else tuple(read_known(recorded_folders(), wanted.name))
    options = TuneOptions(trials, seconds, sampler, seed, baseline, timeout, known)
    own = own_script(wanted, file_of(schedule)) if not family else None
    floor = read_floor(place, this_machine())
    options = replace(options, least_floor=floor, script=own, tasks=task, family=family)
    folder = Path(bundle) if bundle is not None else bundle_folder(wanted.name, own.source if own is not None else "")
    with Store.open(store if store is not None else place / "store.journal") as opened:
        return tune_into(wanted, opened, folder, options, listener)


def file_of(schedule: str | Path | TransformScript | None) -> ScriptFile | None:
    """A script of one's own as a file, whatever it is given as."""
    if schedule is None:
        return None
    return schedule.file if isinstance(schedule, TransformScript) else ScriptFile.read(Path(schedule))
