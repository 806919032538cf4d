"""Show: a payload or a bundle after each stage of the flow, with default configs, recorded ones, or one of yours."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.stages import COMPILED, STEPS
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.machine import Machine, this_machine
from autotune.core.own_family import OwnFamily
from autotune.core.payload import Payload
from autotune.core.task import Task
from autotune.registry import families_for, load_family
from autotune.reports.hot_loop import describe_hot_loop
from autotune.reports.scheduled import Scheduled, as_recorded, candidate_of, only, recorded_tasks, with_knobs
from autotune.reports.space import describe_space
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.own import open_own, own_of, own_script, parts_of
from autotune.worker.reading import ScriptFile, compile_to, open_payload, script_text

STAGES = ("payload", "tasks", "space", "schedule", *COMPILED[:-1], "asm", COMPILED[-1])
DEFAULT = "default"
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


def show(
    source: str,
    stage: str,
    task: str | None = None,
    config: str | None = None,
    schedule: Path | None = None,
    *,
    family: str = "",
) -> Shown:
    """A stage of a payload or bundle, or of one of its tasks alone.

    Args:
        source: A payload's spec, or a bundle's folder.
        stage: One of `STAGES`.
        task: Tag of the task to show alone.
        config: Knobs of that task as ``name=value,...``; the others are as in the default or in the bundle; an
            empty text changes none.
        schedule: A transform script of the user's own; by default the bundle's, or that of the payload's file.
        family: Family to show schedules of, an installed one's name or ``mine.py:FAMILY``.

    Raises:
        ScheduleError: The script cannot be read or tuned.
        PayloadError: The payload, stage or task is unknown, or a config is given for several tasks.
        SpaceError: The config is not of the task's space.
        BundleError: The bundle is incomplete or edited.
        CompileError: The compiler refused the program before that stage.
    """
    if stage not in STAGES:
        raise PayloadError(f"stage must be one of {', '.join(STAGES)}; got {stage!r}")
    bundle = read_bundle(Path(source)) if (Path(source) / MANIFEST_FILE).exists() else None
    payload = bundle.payload if bundle is not None else open_payload(source)
    recorded = recorded_tasks(bundle) if bundle is not None else None
    machine = this_machine()
    script = own_of(bundle) if bundle is not None else read_own(payload, schedule) if not family else None
    parts = parts_of(payload, script)
    own = script or (load_family(family) if family else None)
    if stage == "space":
        shown = [as_recorded(each, recorded, machine, own) for each in parts.tasks if task in (None, each.tag)]
        return Shown("\n\n".join(describe_space(each, machine) for each in shown))
    if task is not None or config is not None:
        alone = as_recorded(only(parts.tasks, task), recorded, machine, own)
        return show_alone(stage, with_knobs(alone, config, machine) if config else alone, machine)
    if stage == "tasks" and recorded is not None:
        tasks_now = {each.tag: each for each in parts.tasks}
        lines = [
            describe(tag, record) + others(tasks_now.get(tag), record["schedule"]) for tag, record in recorded.items()
        ]
        return Shown("\n".join(lines))
    if bundle is not None and (own is None or stage != "scheduled"):
        return render(stage, payload, recorded_candidate(bundle), machine)
    tasks = [as_recorded(each, recorded, machine, own) for each in parts.tasks]
    if stage == "tasks":
        lines = [
            describe(each.task.tag, each.record()) + others(each.task, each.record()["schedule"]) for each in tasks
        ]
        return Shown("\n".join(lines))
    return render(stage, payload, candidate_of(tasks, machine, parts.payload.text), machine)


def show_alone(stage: str, alone: Scheduled, machine: Machine) -> Shown:
    """A stage of one task alone."""
    if stage == "tasks":
        return Shown(describe(alone.task.tag, alone.record()))
    return render(stage, alone.task.payload, candidate_of([alone], machine), machine)


def read_own(payload: Payload, schedule: Path | None) -> OwnFamily | None:
    """A user's own script for a payload: the given one, or what the payload's file holds."""
    file = own_script(payload, ScriptFile.read(schedule) if schedule is not None else None)
    return open_own(file) if file is not None else None


def show_difference(
    source: str,
    stage: str,
    first: str,
    second: str,
    *,
    task: str | None = None,
    config: str | None = None,
    schedule: Path | None = None,
) -> Shown:
    """What differs between two stages, or between two configs at one stage, as a unified diff.

    Args:
        source: A payload's spec, or a bundle's folder.
        stage: The stage at which configs are compared.
        first: A stage; or knobs as ``name=value,...``, or ``default``.
        second: The same.
        task: Tag of the task.
        config: Knobs of that task, where stages are compared.
        schedule: A transform script of the user's own, as for `show`.

    Raises:
        PayloadError: One is a stage and the other is not, or as for `show`.
    """
    sides = (first, second)
    if all(side in STAGES for side in sides):
        texts = [show(source, side, task, config, schedule).text for side in sides]
    elif any(side in STAGES for side in sides):
        raise PayloadError(f"--diff must name two stages or two configs, got {first} and {second}")
    else:
        texts = [show(source, stage, task, "" if side == DEFAULT else side, schedule).text for side in sides]
    before, after = (text.splitlines() for text in texts)
    lines = unified_diff(before, after, first, second, n=3, lineterm="")
    return Shown("\n".join(lines) or f"{first} and {second} are the same")


def others(task: Task | None, mine: str | None) -> str:
    """The families that cover a task besides the one it is compiled with; nothing of a task that is no more."""
    names = [family.name for family in families_for(task) if family.name != mine] if task is not None else []
    return f"  (also {', '.join(names)})" if names else ""


def render(stage: str, payload: Payload, candidate: Candidate, machine: Machine) -> Shown:
    """A stage of a candidate."""
    if stage == "payload":
        return Shown(payload.text)
    if stage == "schedule":
        return Shown(script_text(candidate.script))
    if stage == "asm":
        return Shown(describe_hot_loop(payload, candidate, machine))
    compiled = compile_to(stage, payload, candidate)
    if stage in ("scheduled", *STEPS):
        return Shown(compiled.text)
    return Shown(compiled.text, str(compiled.buffers) if compiled.buffers is not None else UNPLANNED)


def describe(tag: str, record: Mapping[str, Any]) -> str:
    """One line of a task: how often it is in the text, how often a call runs it, and how it is compiled."""
    config = record["config"]
    knobs = " ".join(f"{name}={value}" for name, value in config.items()) if config is not None else ""
    how = f"{record['schedule']}: {knobs}" if config is not None else "plain lowering"
    return f"{tag}  ops {record['ops']}, runs {record['count']}  {how}"
