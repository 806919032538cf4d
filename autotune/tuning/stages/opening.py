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
from autotune.tuning.samplers.sampler import TransferData
from autotune.tuning.samplers.search import DEFAULT, check_sampler, learning
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.tuning.stages.warm_start import KnownConfig
from autotune.worker.loading.reading import ScriptFile


@dataclass(frozen=True)
class Start:
    """What a sweep knows before its first trial.

    Attributes:
        known: Recorded configs; each task starts from the nearest.
        transfer: Transfer data for samplers with a model; `None` for nothing.
        least_floor: Relative differences below it are ties, however quiet the machine seems; `doctor --noise` keeps it.
        script: A user's own script, whose knobs are searched; by default that of the payload's file, else families.
    """

    known: tuple[KnownConfig, ...] = ()
    transfer: TransferData | None = None
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


@dataclass(frozen=True)
class Entrants:
    """What searches a run's tasks besides the families that cover them first.

    Attributes:
        wanted: Family that searches the tasks that it covers: of those that round operands no other does, and none at
            all if it does not round them itself.
        competing: Code of others, which competes with families.
        rounding: Families that round operands, and compete.
        error: Error that those may make, relative to the largest result.
    """

    wanted: Family | None = None
    competing: Sequence[Family] = ()
    rounding: Sequence[Family] = ()
    error: float = 0.0

    def of(self, task: Task, beside: Sequence[Family]) -> list[tuple[Task, Family]]:
        """Families that search a task, each with the task as it is given it.

        Args:
            task: The task.
            beside: Families that are searched beside the first one.
        """
        wanted = self.wanted if self.wanted is not None and self.wanted.covers(task) else None
        rounds = wanted is not None and wanted.error > 0 and self.error > 0  # what is exact stays to fall back to
        first = family_for(task) if wanted is None or rounds else wanted
        rounding = self.rounding if wanted is None else [wanted] if rounds else ()
        others = [family for family in beside if first is None or family.name != first.name]
        beside_it = [(task, family) for family in (*others, *self.competing) if family.covers(task)]
        allowed = replace(task, payload=replace(task.payload, error=self.error))
        able = [(allowed, family) for family in rounding if family.covers(task)]
        return [*([(task, first)] if first is not None else []), *beside_it, *able]


def open_searches(
    tasks: Sequence[Task], setting: SearchSetting, beside: Sequence[str] = (), entrants: Entrants | None = None
) -> list[TaskSearch]:
    """A search for every task that the family that is wanted, or another one, covers, and for every back end that does.

    Args:
        tasks: Tasks to search.
        setting: What their searches have in common.
        beside: Names of families that are searched beside the first one.
        entrants: What else searches them; by default nothing.

    Raises:
        ScheduleError: The family that is wanted, or one beside it, covers none.
    """
    entrants, loaded = entrants or Entrants(), [load_family(name) for name in dict.fromkeys(beside)]
    wanted = [("--family", entrants.wanted)] if entrants.wanted is not None else []
    for option, named in [*wanted, *(("--beside", family) for family in loaded)]:
        if not any(named.covers(task) for task in tasks):
            tags = ", ".join(task.tag for task in tasks) or "none"
            raise ScheduleError(f"{option} must cover a task of {setting.payload}: {tags}; {named.name!r} covers none")
    found = (pair for task in tasks for pair in entrants.of(task, loaded))
    return [TaskSearch.open(task, family, setting) for task, family in found]


def setting_of(
    payload: Payload,
    machine: Machine,
    store: Store,
    options: TuneOptions,
    *,
    rules: dict[str, str] | None = None,
    start: Start = NOTHING_KNOWN,
) -> SearchSetting:
    """What the searches of a payload's tasks have in common.

    Args:
        payload: Payload that the tasks are of.
        machine: Host that they are tuned for.
        store: Receives trials.
        options: Options of the run.
        rules: Rewrite rules that the payload was changed by, as stores keep them.
        start: What is known beforehand.
    """
    return SearchSetting(
        machine,
        store,
        payload.name,
        options.sampler,
        options.seed,
        start.known,
        start.transfer,
        rules,
        options.goal,
        payload.unproved,
    )


def say_sampler(sampler: str, searches: Sequence[TaskSearch]) -> str:
    """What the default sampler knows of these tasks beforehand, a sentence; empty for samplers that take no priors."""
    kind = learning()[DEFAULT]
    if sampler != DEFAULT or not searches or not kind.takes_transfer:
        return ""
    taught = sum(search.search.transfer > 0 for search in searches)
    reckoned = sum(search.search.is_reckoned for search in searches)
    return (
        f"sampler {DEFAULT} ({kind.line}): analytical model as prior for {reckoned} of {len(searches)} tasks, "
        f"recorded data for {taught}"
    )
