"""Facts about recorded tasks that are derived from their payload: readable names, operations, default configs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from autotune.core.errors import AutotuneError
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.core.scripts.user_family import OWN
from autotune.core.space import Config
from autotune.core.task import Task
from autotune.core.task_names import tell_apart
from autotune.registry import load_family
from autotune.reports.holdings import Holdings
from autotune.store.bundle import BundleFiles
from autotune.tuning.stages.user_script import own_of
from autotune.worker.loading.reading import partition, task_names
from autotune.worker.loading.resolve import reopen_payload

MACHINE: TypeAdapter[Machine] = TypeAdapter(Machine)


@dataclass(frozen=True)
class TaskFacts:
    """Facts about a task besides its trials.

    Attributes:
        name: Readable name, unique within the payload.
        count: Number of executions in one call of the payload; `None` if the payload cannot be rebuilt.
        flops: Operations of one execution that every schedule performs; `None` if it has no contraction.
        default: Default config of its family; `None` if unknown.
    """

    name: str
    count: int | None = None
    flops: float | None = None
    default: Config | None = None


def facts_of_bundle(bundle: BundleFiles) -> dict[str, TaskFacts]:
    """Return the facts of every task of a bundle, by tag; default configs are for the recording machine."""
    data = bundle.manifest
    texts = {tag: bundle.texts.get(f"tasks/{tag}.mlir") for tag in data.tasks}
    families = {tag: record.schedule for tag, record in data.tasks.items()}
    facts = facts_of(bundle.payload, texts, data.machine, families)
    return facts | own_facts(bundle, facts)


def own_facts(bundle: BundleFiles, facts: Mapping[str, TaskFacts]) -> dict[str, TaskFacts]:
    """Return the facts of the tasks that a user script schedules, by tag; none if this release cannot read it."""
    tags = [tag for tag, record in bundle.manifest.tasks.items() if record.schedule == OWN]
    try:
        own = own_of(bundle) if tags else None
        default = own.script.default(bundle.manifest.machine) if own is not None else None
    except AutotuneError:
        return {}
    return {tag: replace(facts[tag], count=bundle.manifest.tasks[tag].count, default=default) for tag in tags}


def facts_of_store(holdings: Holdings) -> dict[tuple[str, str], TaskFacts]:
    """Return the facts of every task of a store, by payload and tag, as far as its payloads can be rebuilt here."""
    facts_by_task: dict[tuple[str, str], TaskFacts] = {}
    for name, rows in holdings.frame.groupby("payload", sort=False):
        texts: dict[str, str | None] = dict.fromkeys(map(str, rows["task"].unique()))
        machine = machine_of(holdings, str(rows["machine"].iloc[-1]))
        families = dict(zip(rows["task"].map(str), rows["family"].map(str), strict=True))
        try:
            payload: Payload | None = reopen_payload(str(name))
        except (AutotuneError, OSError):
            payload = None
        facts = facts_of(payload, texts, machine, families)
        facts_by_task |= {(str(name), tag): fact for tag, fact in facts.items()}
    return facts_by_task


def facts_of(
    payload: Payload | None, texts: Mapping[str, str | None], machine: Machine | None, families: Mapping[str, str]
) -> dict[str, TaskFacts]:
    """Return the facts of some tasks of a payload, by tag.

    Args:
        payload: The payload; if `None`, names are derived from texts and tags.
        texts: Text of every task's module, by tag; `None` for that of the payload's task.
        machine: Machine that default configs are for; if `None`, they are unknown.
        families: Name of the family that each task was tuned with, by tag.
    """
    tasks = tasks_of(payload, texts)
    others = {tag: text for tag, text in texts.items() if tag not in tasks}
    names = tell_apart({tag: task.name for tag, task in tasks.items()} | task_names(others))
    return {tag: fact_of(names[tag], tasks.get(tag), machine, families[tag]) for tag in texts}


def fact_of(name: str, task: Task | None, machine: Machine | None, family: str) -> TaskFacts:
    """Return the facts of one task; only its name if the task is unknown."""
    if task is None:
        return TaskFacts(name)
    default = default_of(task, machine, family) if machine is not None else None
    return TaskFacts(name, task.count, float(task.needed_flops) or None, default)


def tasks_of(payload: Payload | None, tags: Collection[str]) -> dict[str, Task]:
    """Return the tasks of a payload that have one of some tags, by tag; none if it cannot be partitioned."""
    if payload is None:
        return {}
    try:
        return {task.tag: task for task in partition(payload).tasks if task.tag in tags}
    except AutotuneError:
        return {}


def default_of(task: Task, machine: Machine, family: str) -> Config | None:
    """Return a family's default config for a task; `None` if it is not installed or does not cover the task."""
    try:
        installed = load_family(family)
    except AutotuneError:
        return None
    return installed.default(task, machine) if installed.covers(task) else None


def machine_of(holdings: Holdings, fingerprint: str) -> Machine | None:
    """Return the machine with a fingerprint: this one, or one described by a finished run in the store."""
    if this_machine().fingerprint == fingerprint:
        return this_machine()
    for summary in reversed(holdings.summaries):
        try:
            machine = MACHINE.validate_python(summary.get("machine"))
        except ValidationError:
            continue
        if machine.fingerprint == fingerprint:
            return machine
    return None
