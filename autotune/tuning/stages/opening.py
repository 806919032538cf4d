"""Opening searches: one for every task and what competes for it, a family of schedules and code of others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.task import Task
from autotune.registry import family_for, load_baseline, load_family, rivals
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.sampler import Lessons
from autotune.tuning.samplers.search import DEFAULT, check_sampler, learning
from autotune.tuning.stages.task_search import TaskSearch
from autotune.tuning.stages.warm_start import KnownConfig
from autotune.worker.loading.reading import ScriptFile


@dataclass(frozen=True)
class Start:
    """What a sweep knows before its first trial.

    Attributes:
        known: Recorded configs; each task starts from the nearest.
        lessons: Transfer data for samplers with a model; `None` for nothing.
        least_floor: Relative differences below it are ties, however quiet the machine seems; `doctor --noise` keeps it.
        script: A user's own script, whose knobs are searched; by default that of the payload's file, else families.
    """

    known: tuple[KnownConfig, ...] = ()
    lessons: Lessons | None = None
    least_floor: float = 0.0
    script: ScriptFile | None = None


NOTHING_KNOWN = Start()


def check_names(options: TuneOptions) -> None:
    """Refuse names of what is not installed, before anything is measured.

    Raises:
        ScheduleError: There is no family, back end or baseline of a name.
        SpaceError: There is no such sampler.
    """
    check_sampler(options.sampler)
    for name in (*([options.family] if options.family else []), *options.beside):
        load_family(name)
    rivals().check(options.backends)
    load_baseline(options.baseline)


def open_searches(
    payload: Payload,
    tasks: Sequence[Task],
    machine: Machine,
    store: Store,
    options: TuneOptions,
    *,
    wanted: Family | None = None,
    rules: dict[str, str] | None = None,
    competing: Sequence[Family] = (),
    rounding: Sequence[Family] = (),
    error: float = 0.0,
    start: Start = NOTHING_KNOWN,
) -> list[TaskSearch]:
    """A search for every task that the family that is wanted, or another one, covers, and for every back end that does.

    Args:
        payload: Payload that the tasks are of.
        tasks: Tasks to search.
        machine: Host that they are tuned for.
        store: Receives trials.
        options: Options of the run.
        wanted: Family that comes before others.
        rules: Rewrite rules that the payload was changed by, as stores keep them.
        competing: Code of others, which competes with families.
        rounding: Families that round operands, and compete.
        error: Error that those may make, relative to the largest result.
        start: What is known beforehand.

    Raises:
        ScheduleError: The family that is wanted, or one beside it, covers none.
    """
    beside = [load_family(name) for name in dict.fromkeys(options.beside)]
    for option, named in [*([("--family", wanted)] if wanted is not None else []), *(("--beside", f) for f in beside)]:
        if not any(named.covers(task) for task in tasks):
            tags = ", ".join(task.tag for task in tasks) or "none"
            raise ScheduleError(f"{option} must cover a task of {payload.name}: {tags}; {named.name!r} covers none")
    searches = []
    for task in tasks:
        first = wanted if wanted is not None and wanted.covers(task) else family_for(task)
        others = [family for family in beside if first is None or family.name != first.name]
        beside_it = [(task, family) for family in (*others, *competing) if family.covers(task)]
        allowed = replace(task, payload=replace(task.payload, error=error))
        able = [(allowed, family) for family in rounding if family.covers(task)]
        first_of = [(task, first)] if first is not None else []
        for found, family in (*first_of, *beside_it, *able):
            opened = TaskSearch.open(
                found,
                family,
                machine,
                store,
                payload=payload.name,
                sampler=options.sampler,
                seed=options.seed,
                known=start.known,
                lessons=start.lessons,
                rules=rules,
                objective=options.goal,
                unproved=payload.unproved,
            )
            searches.append(opened)
    return searches


def say_sampler(sampler: str, searches: Sequence[TaskSearch]) -> str:
    """What the default sampler knows of these tasks beforehand, a sentence; empty for samplers that take no priors."""
    kind = learning()[DEFAULT]
    if sampler != DEFAULT or not searches or not kind.takes_lessons:
        return ""
    taught = sum(search.search.lessons > 0 for search in searches)
    reckoned = sum(search.search.is_reckoned for search in searches)
    return (
        f"sampler {DEFAULT} ({kind.line}): analytical model as prior for {reckoned} of {len(searches)} tasks, "
        f"recorded data for {taught}"
    )
