"""Tasks with the family and config that they are compiled with: recorded in a bundle, default, or requested."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.compiler.passes.pipelines import tail
from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError, PayloadError, SpaceError
from autotune.core.host.machine import Machine
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import ExternalCode
from autotune.core.scripts.assembly import Step, kernels_of, origin, panels_of, script_of, write_step
from autotune.core.space import Config, Space, Value
from autotune.core.task import Task
from autotune.registry import load_family
from autotune.store.bundle import BundleFiles
from autotune.tuning.half_results import family_as_typed
from autotune.tuning.stages.user_script import written

KERNEL = "kernel"  # machine code of a back end, if that won the task
RECORD = ("schedule", "config", "ops", "count")  # of a task, in a manifest


@dataclass(frozen=True)
class Scheduled:
    """A task with its family and config; both are `None` for the plain lowering, and the family for a kernel."""

    task: Task
    family: Family | None = None
    config: Config | None = None
    kernel: ExternalKernel | None = None

    @property
    def has_own_script(self) -> bool:
        """Whether its schedule is a user script."""
        return self.family is not None and self.family.script is not None

    def record(self) -> dict[str, Any]:
        """Return the task's record, with the keys of a bundle's manifest."""
        backend = self.kernel.backend if self.kernel is not None else None
        name = self.family.name if self.family is not None else backend
        return {"schedule": name, "config": self.config, "ops": self.task.occurrences, "count": self.task.count}


def recorded_tasks(bundle: BundleFiles) -> dict[str, dict[str, Any]]:
    """Return the record of every task of a bundle, by tag."""
    kernels = {kernel.tag: kernel for kernel in bundle.kernels}
    return {
        tag: {key: getattr(task, key) for key in RECORD} | {KERNEL: kernels.get(tag)}
        for tag, task in bundle.manifest.tasks.items()
    }


def as_recorded(
    task: Task, recorded: Mapping[str, Any] | None, machine: Machine, own: Family | None = None
) -> Scheduled:
    """Return a task with the config that a bundle records; without a bundle, with the default config of its family.

    Args:
        task: The task.
        recorded: Records of a bundle's tasks, by tag; `None` without a bundle.
        machine: The host.
        own: User script or requested family, which takes precedence over others.

    Raises:
        BundleError: The bundle has no such task.
    """
    if recorded is None:
        chosen = own if own is not None and own.covers(task) else family_as_typed(task, machine)
        return Scheduled(task, chosen, chosen.default(task, machine)) if chosen is not None else Scheduled(task)
    if task.tag not in recorded:
        raise BundleError(
            f"the bundle must hold task {task.tag}, it has {', '.join(recorded) or 'none'}; "
            "tasks were formed otherwise when it was written: tune again, or leave out --task and --config"
        )
    record = recorded[task.tag]
    if record["config"] is None:
        return Scheduled(task)
    if record.get(KERNEL) is not None:
        return Scheduled(task, None, record["config"], record[KERNEL])
    family: Family = own if own is not None and record["schedule"] == own.name else load_family(record["schedule"])
    return Scheduled(task, family, completed(record["config"], family, task, machine))


def completed(config: Config, family: Family, task: Task, machine: Machine) -> Config:
    """Add the defaults of newer knobs to a recorded config; return it unchanged if the result is not valid."""
    default, space = family.default(task, machine), family.space(task, machine)
    whole = {knob.name: config.get(knob.name, default[knob.name]) for knob in space.knobs}
    valid = all(whole[knob.name] in knob.values for knob in space.knobs) and space.broken_constraint(whole) is None
    return whole if valid and set(config) <= set(whole) else config


def only(tasks: Sequence[Task], tag: str | None, why: str) -> Task:
    """Return the task with a tag; without a tag, the only task.

    Args:
        tasks: Tasks to choose from.
        tag: Tag of the task; `None` if there must be a single one.
        why: Reason why a single task is needed, for the message.

    Raises:
        PayloadError: There is no such task, or there are several.
    """
    matches = [task for task in tasks if tag in (None, task.tag)]
    if len(matches) != 1:
        tags = ", ".join(task.tag for task in tasks) or "none"
        got = f"got {tag!r}" if tag is not None else why
        raise PayloadError(f"--task must be one of {tags}; {got}")
    return matches[0]


def with_knobs(scheduled: Scheduled, text: str, machine: Machine) -> Scheduled:
    """Set knobs of a task as given by ``name=value,...``.

    Raises:
        SpaceError: A knob or value is not in the task's space, or the config violates a constraint.
    """
    family = scheduled.family or family_as_typed(scheduled.task, machine)
    if family is None:
        raise SpaceError(f"no schedule family covers {scheduled.task.tag}, so it has no knobs; leave out --config")
    space = family.space(scheduled.task, machine)
    values = read_knobs(text, space)
    config = {**(scheduled.config or family.default(scheduled.task, machine)), **values}
    space.check(config)
    config = {**space.settled(config), **values}
    broken = space.broken_constraint(config)
    if broken is not None:
        raise SpaceError(f"{broken}; got {text}")
    return replace(scheduled, family=family, config=config)


def read_knobs(text: str, space: Space) -> dict[str, Value]:
    """Parse ``name=value,...``; a value that its knob does not have stays a string, which `Space.check` refuses."""
    config: dict[str, Value] = {}
    for part in re.split(r",(?![^\[({<]*[\])}>])", text):  # not inside brackets
        name, equals, spelled = part.partition("=")
        if not (name and equals):
            raise SpaceError(f"--config must read name=value,...; got {part!r}")
        values = next((knob.values for knob in space.knobs if knob.name == name), ())
        config[name] = next((value for value in values if str(value).lower() == spelled.lower()), spelled)
    return config


def candidate_of(tasks: Sequence[Scheduled], machine: Machine, text: str | None = None) -> Candidate:
    """Return the candidate that compiles tasks: all of them in the tagged module `text`, or a single one without it."""
    steps = []
    for each in tasks:
        if each.family is not None and each.config is not None:
            note = origin(each.task, each.family, each.config)
            steps.append(write_step(each.task, each.family, each.config, machine, alone=text is None, note=note))
        elif each.kernel is not None:
            note = f"{each.task.tag} by back end '{each.kernel.backend}': {each.kernel.made.maker}"
            steps.append(Step(each.task.tag, each.task.occurrences, ExternalCode(code=each.kernel), note))
    script = script_of(written(steps) if len(steps) > 1 else steps)
    return Candidate(script, tail(machine.threads), text, panels_of(steps), kernels=kernels_of(steps))
