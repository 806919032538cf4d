"""Creation of the searches of a run: one for every task and each family or external code generator that covers it."""

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
    """Prior knowledge of a sweep.

    Attributes:
        known: Recorded configs; each task starts from the nearest.
        transfer: Transfer data for samplers with a model; `None` for none.
        least_floor: Lower bound of the noise floor, a relative difference, as recorded by `doctor --noise`.
        script: User script whose knobs are searched; by default that of the payload's file, else families.
    """

    known: tuple[KnownConfig, ...] = ()
    transfer: TransferData | None = None
    least_floor: float = 0.0
    script: ScriptFile | None = None


NOTHING_KNOWN = Start()


def check_names(options: TuneOptions) -> None:
    """Raise unless all named plug-ins are installed; called before anything is measured.

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
    """Families that search a run's tasks besides the default families.

    Attributes:
        wanted: Family that the user selected for the tasks that it covers: then it is the only rounding family that
            competes, or there is none if it does not round.
        competing: Families of external code generators.
        rounding: Families that round operands.
        error: Allowed error of those, relative to the largest result.
    """

    wanted: Family | None = None
    competing: Sequence[Family] = ()
    rounding: Sequence[Family] = ()
    error: float = 0.0

    def of(self, task: Task, beside: Sequence[Family]) -> list[tuple[Task, Family]]:
        """Return the families that search a task, each with the task, whose payload has its error budget.

        Args:
            task: The task.
            beside: Families that are searched in addition to the first one.
        """
        wanted = self.wanted if self.wanted is not None and self.wanted.covers(task) else None
        rounds = wanted is not None and wanted.error > 0 and self.error > 0  # the exact family remains as a fallback
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
    """Open a search for every pair of a task and a family that searches it.

    Args:
        tasks: Tasks to search.
        setting: Settings that the searches share.
        beside: Names of families that are searched in addition to the first one.
        entrants: Other families; by default none.

    Raises:
        ScheduleError: The selected family, or one of `beside`, covers no task.
    """
    entrants, loaded = entrants or Entrants(), [load_family(name) for name in dict.fromkeys(beside)]
    wanted = [("--family", entrants.wanted)] if entrants.wanted is not None else []
    for option, named in [*wanted, *(("--beside", family) for family in loaded)]:
        if not any(named.covers(task) for task in tasks):
            tags = ", ".join(task.tag for task in tasks) or "none"
            raise ScheduleError(f"{option} must cover a task of {setting.payload}: {tags}; {named.name!r} covers none")
    pairs = (pair for task in tasks for pair in entrants.of(task, loaded))
    return [TaskSearch.open(task, family, setting) for task, family in pairs]


def setting_of(
    payload: Payload,
    machine: Machine,
    store: Store,
    options: TuneOptions,
    *,
    rules: dict[str, str] | None = None,
    start: Start = NOTHING_KNOWN,
) -> SearchSetting:
    """Return the settings that the searches of a payload's tasks share.

    Args:
        payload: Payload of the tasks.
        machine: Host that they are tuned for.
        store: Store of trials.
        options: Options of the run.
        rules: Rewrite rules that were applied to the payload, in the form of stores.
        start: Prior knowledge of the sweep.
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
    """Return a sentence on the priors of the default sampler for these tasks; empty for samplers without priors."""
    kind = learning()[DEFAULT]
    if sampler != DEFAULT or not searches or not kind.takes_transfer:
        return ""
    taught = sum(search.search.transfer > 0 for search in searches)
    reckoned = sum(search.search.is_reckoned for search in searches)
    return (
        f"sampler {DEFAULT} ({kind.line}): analytical model as prior for {reckoned} of {len(searches)} tasks, "
        f"recorded data for {taught}"
    )
