"""`tune` with defaults for everything: where trials and the winner go, known configs, noise floor."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotune.core.listener import SILENT, Listener, telling
from autotune.core.machine import this_machine
from autotune.core.objective import Objective
from autotune.core.payload import Payload
from autotune.store.places import bundle_folder, home, recorded_folders, recorded_spaces
from autotune.store.store import Store
from autotune.tuning.lessons import recordings_for
from autotune.tuning.own import check_ways, own_script
from autotune.tuning.result import TuneResult
from autotune.tuning.search import DEFAULT
from autotune.tuning.tunable import TransformScript
from autotune.tuning.tunable import payload as payload_of
from autotune.tuning.tune import TuneOptions
from autotune.tuning.tune import tune as tune_into
from autotune.tuning.warm_start import read_known
from autotune.worker.noise import read_floor
from autotune.worker.reading import ScriptFile
from autotune.worker.rule_files import read_rules


def tune(
    payload: str | Path | Payload,
    *,
    trials: int = 100,
    seconds: float | None = None,
    sampler: str = DEFAULT,
    seed: int = 0,
    baseline: str = "passes",
    timeout: float = 60.0,
    store: str | Path | None = None,
    bundle: str | Path | None = None,
    cold: bool = False,
    schedule: str | Path | TransformScript | None = None,
    task: str = "*",
    family: str = "",
    beside: Sequence[str] = (),
    backends: Sequence[str] = (),
    threads: int = 1,
    jobs: int = 1,
    objective: str = "seconds",
    weight: float = 0.5,
    rules: str | Path | None = None,
    exact: bool = False,
    error: float = 0.0,
    agreement: float = 0.0,
    listener: Listener = SILENT,
) -> TuneResult:
    """Search schedules for a payload, prove the best right and faster, and write a bundle.

    Called again it resumes: trials in the store are not run twice.

    Args:
        payload: A spec, a path to an ``.mlir`` file, or a payload.
        trials: Candidates to run over all tasks, those in the store counted in.
        seconds: Stop searching after this long; `None` for no bound.
        sampler: ``auto``, ``tpe``, ``model``, ``random``, ``cmaes``, ``grid``, or one of Optuna's by its name.
        seed: Seed of the sampler and of the input data.
        baseline: Pass pipeline that speed-ups are quoted against, ``passes`` or ``loops``.
        timeout: Seconds that one candidate may take to compile, verify and measure.
        store: File of trials, or a database URL; by default ``tuned/MACHINE/store.journal``.
        bundle: Folder for the winner; by default ``tuned/MACHINE/bundles/PAYLOAD``.
        cold: Ignore what bundles and spaces below ``tuned/`` record.
        schedule: A transform script of one's own, whose open knobs are searched: a file, or `script`'s. By default that
            of the payload's own file, if it holds one.
        task: Which tasks a script of one op is for: a tag, or a pattern with ``*``.
        family: Family of schedules to search, an installed one's name or ``mine.py:FAMILY``.
        beside: More families, named so, each of which competes for the tasks that it covers.
        backends: Other compilers that compete for tasks, each ``NAME`` or ``NAME:ARGUMENT``.
        threads: Threads that programs may use, of a core each.
        jobs: Candidates that are worked on at once, of a core each.
        objective: ``seconds``, or ``seconds,joules`` where energy can be read.
        weight: Share of joules in the choice among configs that none beats in both, from 0 to 1.
        rules: File of rewrite rules in PDL, besides those that come with the tool; ``none`` for no rules at all.
        exact: Leave out rewrite rules that change rounding.
        error: What outputs may be off, relative to the largest of each: tasks may then round operands. 0: none does.
        agreement: Least share of rows of the outputs whose largest element must keep its place, beside `error` or
            alone: tasks may then round operands.
        listener: Notified of stages and trials.

    Returns:
        What was found; ``result.bundle`` is the folder that `Bundle.read` takes.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
        PayloadError: There is no such payload, or it does not fit the machine.
        RuleError: The rules cannot be read or applied, or change what is computed.
        SpaceError: There is no such sampler.
        OptionError: An option is out of range, or two exclude each other: a schedule, and a family, error or agreement.
        StoreError: The store is damaged, of another format, or cannot be written.
        BundleError: The folder cannot be written, or holds something else.
    """
    given = file_of(schedule)
    check_ways(family, has_script=given is not None, rounds=max(error, agreement))
    with telling(listener):
        listener.stage(f"reading {payload.name if isinstance(payload, Payload) else payload}")
        wanted, place = payload_of(payload), home()
    if rules is not None or exact:
        wanted = replace(wanted, rules=read_rules(rules, exact=exact))
    known = () if cold else tuple(read_known(recorded_folders(), wanted.name))
    learnt = () if cold else recordings_for(sampler, recorded_spaces())
    options = TuneOptions(trials, seconds, sampler, seed, baseline, timeout, known, learnt, threads=threads, jobs=jobs)
    own = own_script(wanted, given) if not family else None
    floor = read_floor(place, this_machine(threads))
    options = replace(options, least_floor=floor, script=own, tasks=task, family=family, backends=tuple(backends))
    options = replace(options, error=error, agreement=agreement, beside=tuple(beside))
    options = replace(options, objective=Objective(objective, weight))
    by = own.source if own is not None else ""
    folder = Path(bundle) if bundle is not None else bundle_folder(wanted.name, by, threads, wanted.rules.options)
    with Store.open(store if store is not None else place / "store.journal") as opened:
        return tune_into(wanted, opened, folder, options, listener)


def file_of(schedule: str | Path | TransformScript | None) -> ScriptFile | None:
    """A script of one's own as a file, whatever it is given as."""
    if schedule is None:
        return None
    return schedule.file if isinstance(schedule, TransformScript) else ScriptFile.read(Path(schedule))
