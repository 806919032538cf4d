"""`tune` with defaults for the store, the bundle's folder, and prior knowledge."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.core.host.machine import Machine, this_machine
from autotune.core.listener import Listener, telling
from autotune.core.payload import Payload
from autotune.core.progress import watching
from autotune.core.verb_options import with_keywords
from autotune.registry import rewriter
from autotune.store.folders import bundle_folder, home, recorded_folders, recorded_spaces
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions, command_options, options_from
from autotune.tuning.result import TuneResult
from autotune.tuning.samplers.search import transfer_from
from autotune.tuning.stages.opening import Start
from autotune.tuning.stages.user_script import own_script
from autotune.tuning.stages.warm_start import read_known
from autotune.tuning.tunable import TransformScript
from autotune.tuning.tunable import payload as payload_of
from autotune.tuning.tune import tune as tune_into
from autotune.worker.bench.noise import read_floor
from autotune.worker.loading.reading import ScriptFile


@with_keywords(command_options())
def tune(
    payload: str | Path | Payload,
    *,
    store: str | Path | None = None,
    bundle: str | Path | None = None,
    schedule: str | Path | TransformScript = "",
    rules: str | Path = "",
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - those of TuneOptions, which checks them
) -> TuneResult:
    """Search schedules for a payload, prove the best right and faster, and write a bundle.

    Called again it resumes: trials in the store are not run twice, and where none is left to run and bundle and store
    are unchanged, the recorded result is returned; ``anew=True`` measures the whole again. A faster bundle of the same
    payload, recorded on the same machine, is replaced with ``anew=True`` only.

    Args:
        payload: Spec, path to an ``.mlir`` file, or payload.
        store: File of trials, or a database URL; by default ``tuned/MACHINE/store.journal``.
        bundle: Folder for the winner; by default ``tuned/MACHINE/bundles/PAYLOAD``.
        schedule: User's transform script, whose open knobs are searched: a file, or the result of `script`. By default
            that of the payload's own file, if it has one.
        rules: File of rewrite rules in PDL, in addition to the built-in ones; ``none`` for no rules at all.
        listener: Listener of stages and trials; by default a line shows progress on a terminal and in a notebook.
            ``at.SILENT`` shows nothing.
        **options: Any option of ``autotune tune``, by its name in `TuneOptions`, such as ``trials=60``.

    Returns:
        Result of the run; ``result.bundle`` is the folder that the winner was written to, for `Bundle.read`.

    Raises:
        OptionError: An option is out of its range, or two exclude each other.
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
        PayloadError: There is no such payload, or it does not fit the machine.
        RuleError: The rules cannot be read or applied, or change the results.
        SpaceError: There is no such sampler.
        StoreError: The store is damaged, of another format, or cannot be written.
        BundleError: The folder cannot be written, or holds something else.
    """
    named = schedule.file.source if isinstance(schedule, TransformScript) else str(schedule)
    chosen = options_from({**options, "schedule": named, "rules": str(rules)})
    name = payload.name if isinstance(payload, Payload) else str(payload)
    with ExitStack() as stack:
        shown = stack.enter_context(watching(name, chosen.trials) if listener is None else telling(listener))
        shown.stage(f"reading {name}")
        loaded = payload_of(payload)
        if chosen.rules or chosen.exact:
            loaded = replace(loaded, rules=rewriter().read(chosen.rules or None, exact=chosen.exact))
        user_script = schedule.file if isinstance(schedule, TransformScript) else script_file(named)
        start = start_of(loaded, chosen, user_script, this_machine(chosen.threads))
        folder = Path(bundle) if bundle is not None else folder_of(loaded, chosen, start)
        opened = stack.enter_context(Store.open(store if store is not None else home() / "store.journal"))
        return tune_into(loaded, opened, folder, chosen, shown, start=start)


def script_file(path: str) -> ScriptFile | None:
    """Read a user script from a file; return `None` for an empty path."""
    return ScriptFile.read(Path(path)) if path else None


def start_of(payload: Payload, options: TuneOptions, script: ScriptFile | None, machine: Machine) -> Start:
    """Return the prior knowledge of a sweep, from the default folders of results.

    Args:
        payload: Payload to tune.
        options: Options of the sweep.
        script: User script; `None` for none.
        machine: Machine whose recorded noise floor is used.
    """
    return Start(
        known=() if options.cold else tuple(read_known(recorded_folders(), payload.name)),
        transfer=None if options.cold else transfer_from(recorded_spaces(), options.sampler),
        least_floor=read_floor(home(), machine),
        script=own_script(payload, script) if not options.family else None,
    )


def folder_of(payload: Payload, options: TuneOptions, start: Start, machine: Machine | None = None) -> Path:
    """Return the default folder of a sweep's bundle, for this machine or another one."""
    by = start.script.source if start.script is not None else ""
    return bundle_folder(payload.name, by, options.threads, payload.rules.options, machine)
