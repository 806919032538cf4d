"""Opening searches: one for every task and whoever competes for it, a family of schedules and back ends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from autotune.core.backend import BackendFamily
from autotune.core.errors import ScheduleError
from autotune.core.family import Family
from autotune.core.machine import Machine
from autotune.core.objective import Objective
from autotune.core.payload import Payload
from autotune.core.task import Task
from autotune.registry import family_for, load_family
from autotune.store.recording import Recording
from autotune.store.store import Store
from autotune.tuning.search import DEFAULT
from autotune.tuning.task_search import TaskSearch
from autotune.tuning.warm_start import KnownConfig


class SearchOptions(Protocol):
    """How to search: `TuneOptions`."""

    @property
    def sampler(self) -> str:
        """Name of the sampler."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the sampler and of the input data."""
        ...

    @property
    def known(self) -> Sequence[KnownConfig]:
        """Recorded configs; each task starts from the nearest."""
        ...

    @property
    def beside(self) -> Sequence[str]:
        """Names of more families, each of which competes for the tasks that it covers."""
        ...

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        ...

    @property
    def recordings(self) -> Sequence[Recording]:
        """Recorded spaces that samplers which model learn from."""
        ...


def open_searches(
    payload: Payload,
    tasks: Sequence[Task],
    machine: Machine,
    store: Store,
    options: SearchOptions,
    *,
    wanted: Family | None = None,
    rules: dict[str, str] | None = None,
    backends: Sequence[BackendFamily] = (),
    rounding: Sequence[Family] = (),
    error: float = 0.0,
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
        backends: Back ends that compete with families.
        rounding: Families that round operands, and compete.
        error: Error that those may make, relative to the largest result.

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
        rivals = [family for family in (*others, *backends) if family.covers(task)]
        allowed = replace(task, payload=replace(task.payload, error=error))
        able = [(allowed, family) for family in rounding if family.covers(task)]
        for found, family in [*([(task, first)] if first is not None else []), *((task, r) for r in rivals), *able]:
            opened = TaskSearch.open(
                found,
                family,
                machine,
                store,
                payload=payload.name,
                sampler=options.sampler,
                seed=options.seed,
                known=options.known,
                recordings=options.recordings,
                rules=rules,
                objective=options.objective,
            )
            searches.append(opened)
    return searches


def say_sampler(sampler: str, searches: Sequence[TaskSearch]) -> str:
    """What the default sampler does with these tasks, in a sentence; empty for others, which say it by their name."""
    if sampler != DEFAULT or not searches:
        return ""
    taught = sum(search.search.lessons > 0 for search in searches)
    reckoned = sum(search.search.is_reckoned for search in searches)
    return (
        f"sampler {DEFAULT}: a cost model tries what promises the most gain a second; of {len(searches)} tasks, "
        f"arithmetic tells it something beforehand of {reckoned}, recorded spaces of {taught}; see `inspect --why`"
    )
