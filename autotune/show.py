"""Show: a payload or a bundle after each stage of the flow, with default configs, recorded ones, or one of yours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.bundle import Bundle, read_bundle
from autotune.errors import BundleError, PayloadError, SpaceError
from autotune.ir.evaluate import Candidate
from autotune.ir.lower import TAIL
from autotune.ir.partition import partition
from autotune.ir.stages import COMPILED, compile_to
from autotune.machine import Machine, this_machine
from autotune.manifest import MANIFEST_FILE
from autotune.registry import family_for, load_family, load_payload
from autotune.replay import recorded_candidate
from autotune.schedule import Schedule
from autotune.script import assemble, origin, panels_of, write_step
from autotune.space import Config, Space, Value
from autotune.task import Payload, Task

STAGES = ("payload", "tasks", "schedule", *COMPILED)
RECORD = ("schedule", "config", "ops", "count")  # of a task, in a manifest
UNPLANNED = "buffers: allocated in every call; the pipeline plans no arena"


@dataclass(frozen=True)
class Shown:
    """What to print.

    Attributes:
        text: The stage's text.
        note: A line about buffers, from the stage on at which there are any; empty before.
    """

    text: str
    note: str = ""


@dataclass(frozen=True)
class Scheduled:
    """A task, and the family and config it is compiled with; both `None` for the plain lowering."""

    task: Task
    family: Schedule | None = None
    config: Config | None = None

    def record(self) -> dict[str, Any]:
        """As manifests of bundles describe it."""
        name = self.family.name if self.family is not None else None
        return {"schedule": name, "config": self.config, "ops": self.task.ops, "count": self.task.count}


def show(source: str, stage: str, task: str | None = None, config: str | None = None) -> Shown:
    """A stage of a payload or bundle, or of one of its tasks alone.

    Args:
        source: A payload's spec, or a bundle's folder.
        stage: One of `STAGES`.
        task: Tag of the task to show alone.
        config: Knobs of that task as ``name=value,...``; the others are as in the default or in the bundle.

    Raises:
        PayloadError: The payload, stage or task is unknown, or a config is given for several tasks.
        SpaceError: The config is not of the task's space.
        BundleError: The bundle is incomplete or edited.
        CompileError: It does not compile as far as that.
    """
    if stage not in STAGES:
        raise PayloadError(f"stage must be one of {', '.join(STAGES)}; got {stage!r}")
    bundle = read_bundle(Path(source)) if (Path(source) / MANIFEST_FILE).exists() else None
    payload = bundle.payload if bundle is not None else load_payload(source)
    recorded = recorded_tasks(bundle) if bundle is not None else None
    machine = this_machine()
    if task is not None or config is not None:
        alone = scheduled(only(partition(payload).tasks, task), recorded, machine)
        if config is not None:
            alone = with_knobs(alone, config, machine)
        if stage == "tasks":
            return Shown(describe(alone.task.tag, alone.record()))
        return render(stage, alone.task.payload, candidate_of([alone], machine))
    if bundle is not None and recorded is not None:
        if stage == "tasks":
            return Shown("\n".join(describe(tag, record) for tag, record in recorded.items()))
        return render(stage, payload, recorded_candidate(bundle))
    parts = partition(payload)
    tasks = [scheduled(each, None, machine) for each in parts.tasks]
    if stage == "tasks":
        return Shown("\n".join(describe(each.task.tag, each.record()) for each in tasks))
    return render(stage, payload, candidate_of(tasks, machine, parts.payload.text))


def render(stage: str, payload: Payload, candidate: Candidate) -> Shown:
    """A stage of a candidate."""
    if stage == "payload":
        return Shown(payload.text)
    if stage == "schedule":
        return Shown(candidate.script or "")
    compiled = compile_to(stage, payload, candidate)
    return Shown(compiled.text, str(compiled.buffers) if compiled.buffers is not None else UNPLANNED)


def recorded_tasks(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """What a bundle's manifest says of every task."""
    return {tag: {key: getattr(task, key) for key in RECORD} for tag, task in bundle.manifest.tasks.items()}


def scheduled(task: Task, recorded: Mapping[str, Any] | None, machine: Machine) -> Scheduled:
    """A task as a bundle records it; without a bundle, with the default config of its family.

    Raises:
        BundleError: The bundle holds no such task.
    """
    if recorded is None:
        family = family_for(task)
        return Scheduled(task, family, family.default(task, machine)) if family is not None else Scheduled(task)
    if task.tag not in recorded:
        raise BundleError(
            f"the bundle must hold task {task.tag}, it has {', '.join(recorded) or 'none'}; "
            "tasks were formed otherwise when it was written: tune again, or leave out --task and --config"
        )
    record = recorded[task.tag]
    if record["config"] is None:
        return Scheduled(task)
    return Scheduled(task, load_family(record["schedule"]), record["config"])


def only(tasks: Sequence[Task], tag: str | None) -> Task:
    """The task with a tag; without one, the only task there is.

    Raises:
        PayloadError: There is none, or there are several.
    """
    found = [task for task in tasks if tag in (None, task.tag)]
    if len(found) != 1:
        tags = ", ".join(task.tag for task in tasks) or "none"
        got = f"got {tag!r}" if tag is not None else "a config is of one task"
        raise PayloadError(f"--task must be one of {tags}; {got}")
    return found[0]


def with_knobs(scheduled: Scheduled, text: str, machine: Machine) -> Scheduled:
    """The task with knobs set as ``name=value,...``.

    Raises:
        SpaceError: A knob or value is not of the task's space, or the config breaks one of its laws.
    """
    family = scheduled.family or family_for(scheduled.task)
    if family is None:
        raise SpaceError(f"no schedule family covers {scheduled.task.tag}, so it has no knobs; leave out --config")
    space = family.space(scheduled.task, machine)
    config = {**(scheduled.config or family.default(scheduled.task, machine)), **read_knobs(text, space)}
    space.check(config)
    law = space.broken_law(config)
    if law is not None:
        raise SpaceError(f"{law}; got {text}")
    return replace(scheduled, family=family, config=config)


def read_knobs(text: str, space: Space) -> dict[str, Value]:
    """The values that ``name=value,...`` spells; those that no knob has stay text, for `Space.check` to refuse."""
    found: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, spelled = part.partition("=")
        if not (name and equals):
            raise SpaceError(f"--config must read name=value,...; got {part!r}")
        values = next((knob.values for knob in space.knobs if knob.name == name), ())
        found[name] = next((value for value in values if str(value).lower() == spelled.lower()), spelled)
    return found


def candidate_of(tasks: Sequence[Scheduled], machine: Machine, text: str | None = None) -> Candidate:
    """How tasks are compiled: all in the tagged module `text`, or the only one alone."""
    steps = []
    for each in tasks:
        if each.family is not None and each.config is not None:
            note = origin(each.task, each.family, each.config)
            steps.append(write_step(each.task, each.family, each.config, machine, alone=text is None, note=note))
    return Candidate(assemble(steps), TAIL, text, panels_of(steps))


def describe(tag: str, record: Mapping[str, Any]) -> str:
    """One line of a task: how often it is in the text, how often a call runs it, and how it is compiled."""
    config = record["config"]
    knobs = " ".join(f"{name}={value}" for name, value in config.items()) if config is not None else ""
    how = f"{record['schedule']}: {knobs}" if config is not None else "plain lowering"
    return f"{tag}  ops {record['ops']}, runs {record['count']}  {how}"
