"""User scripts in a tuning run: reading, a dry run, and instantiation for the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from autotune.compiler.dry_run import DryRun
from autotune.compiler.guard import OPEN
from autotune.compiler.script.matching import Match, matches
from autotune.core.errors import PayloadError, ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.plugs.program import Program
from autotune.core.scripts.assembly import Step
from autotune.core.scripts.parametric import OpenScript
from autotune.core.scripts.user_family import OwnFamily, whole_task
from autotune.core.task import Task
from autotune.registry import rewriter
from autotune.store.bundle import BundleFiles
from autotune.worker.loading.reading import (
    ScriptFile,
    dry_run_script,
    partition,
    read_script,
    script_apart,
    script_sequences,
    script_text,
)


def own_script(payload: Payload, script: ScriptFile | None) -> ScriptFile | None:
    """Return the user script to tune: the given one, else that of the payload's own file; `None` for families."""
    return script or (ScriptFile(payload.name, payload.schedule) if payload.schedule else None)


def read_own(payload: Payload, script: ScriptFile | None, tasks: str, *, family: str) -> OwnFamily | None:
    """Read the user script to tune; return `None` for families. Called before anything is measured.

    Raises:
        ScheduleError: The script cannot be read or tuned; or tasks are selected for a script, and there is none.
    """
    file = own_script(payload, script) if not family else None
    if file is not None:
        return open_own(file, tasks)
    if tasks != "*":
        raise ScheduleError("--task must go with a schedule of your own, there is none; pass --schedule or drop it")
    return None


def open_own(file: ScriptFile, tasks: str = "*") -> OwnFamily:
    """Read a user script as a family.

    Args:
        file: The user's file.
        tasks: Tag of the tasks that a script of one op applies to, or a pattern with ``*``.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
    """
    script = read_script(file)
    if script.whole and tasks != "*":
        raise ScheduleError(f"--task must go with a script of one op, {file.source} takes the whole payload; drop it")
    return OwnFamily(script, tasks, matches=partial(matched_by, script) if script.matcher else None)


@cache
def matched_by(script: OpenScript, task: Task) -> bool:
    """Return whether a script's own matcher matches the op of a task."""
    match = Match(script.source, script.text, script.matcher, task.payload.text, task.tag)
    return script_apart(matches, match, script.source)


def own_of(bundle: BundleFiles) -> OwnFamily | None:
    """Return the user script that a bundle was tuned with; `None` where there was none.

    Raises:
        ScheduleError: This release cannot read it.
    """
    record = bundle.manifest.script
    if record is None:
        return None
    return open_own(ScriptFile(record.source, bundle.texts[OPEN]), record.tasks)


def own_in(about: Mapping[str, Any]) -> OwnFamily | None:
    """Return the user script that a sweep of a store records; `None` where there is none.

    Raises:
        ScheduleError: This release cannot read it.
    """
    record = about.get("script")
    return open_own(ScriptFile(record["source"], record["text"]), record["tasks"]) if record else None


def parts_of(payload: Payload, own: OwnFamily | None) -> Partition:
    """Partition a payload into tasks: a single one, where a user script transforms the whole payload.

    Raises:
        ScheduleError: The script applies to no task of the payload.
    """
    parts = partition_named(payload)
    if own is None:
        return parts
    if own.script.whole:
        flops = payload.flops or sum(task.needed_flops * task.count for task in parts.tasks)
        if not payload.rules.source:  # the script is written for the unmodified text
            return Partition(payload, (whole_task(replace(payload, flops=flops)),))
        text = parts.rewriting.after or payload.text
        changed = replace(payload, text=text)
        return Partition(changed, (whole_task(replace(changed, flops=flops)),), parts.rewriting)
    if not any(own.covers(task) for task in parts.tasks):
        tags = ", ".join(task.tag for task in parts.tasks) or "none"
        which = f"; @{own.script.matcher} of {own.script.source} takes none" if own.script.matcher else ""
        raise ScheduleError(f"--task must match a task of {payload.name}: {tags}; got {own.tasks!r}{which}")
    return parts


def partition_named(payload: Payload) -> Partition:
    """Partition a payload; where the process fails in a user's rule, the error names the rule."""
    try:
        return partition(payload)
    except PayloadError:
        if payload.rules.source:
            rewriter().rewriting(payload)
        raise


def dry_run_all(parts: Partition, own: OwnFamily, machine: Machine) -> tuple[str, ...]:
    """Run a user script's default config on every task that it applies to, and return notes, before the search."""
    notes = list(own.script.notes)
    for task in parts.tasks:
        if own.covers(task):
            tag, panel = "" if own.script.whole else task.tag, own.script.rewrites.panel
            chosen = own.script.choose(own.default(task, machine), machine, tag=tag)
            panels = ((task.tag, panel),) if panel else ()
            try:
                notes += dry_run_script(DryRun(task.payload, task.payload.text, chosen, panels))
            except ScheduleError as error:  # the process died; other configs may work
                notes.append(f"the config that the search begins with fails: {error}")
    return tuple(dict.fromkeys(notes))


def written(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with user scripts instantiated, so that they can be assembled into one script."""
    return [replace(step, program=write_out(step, f"own_{index}_")) for index, step in enumerate(steps)]


def write_out(step: Step, prefix: str) -> Program:
    """Return a step's program with its user script instantiated; names of its sequences get a prefix."""
    return step.program.written(
        lambda chosen: headed(step.note, script_text(chosen)), lambda chosen: script_sequences(chosen, prefix)
    )


def headed(note: str, text: str) -> str:
    """Prepend a note to a script, as comments."""
    return "".join(f"// {line}\n" for line in note.splitlines()) + text
