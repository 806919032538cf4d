"""A user's own script in a tuning run: read, rehearsed, and written out for the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.compiler.guard import OPEN
from autotune.compiler.rehearsal import Rehearsal
from autotune.compiler.tasks.partition import Partition
from autotune.core.errors import ScheduleError
from autotune.core.machine import Machine
from autotune.core.own_family import OwnFamily, whole_task
from autotune.core.payload import Payload
from autotune.core.script import Step
from autotune.store.bundle import BundleFiles
from autotune.tuning.roofline import needed_flops
from autotune.worker.reading import (
    ScriptFile,
    partition,
    read_script,
    rehearse_script,
    script_sequences,
    script_text,
)


def own_script(payload: Payload, given: ScriptFile | None) -> ScriptFile | None:
    """The script to tune: what somebody gives, else what the payload's own file holds; `None` for families."""
    return given or (ScriptFile(payload.name, payload.schedule) if payload.schedule else None)


def open_own(file: ScriptFile, tasks: str = "*") -> OwnFamily:
    """A user's script as a family.

    Args:
        file: The user's file.
        tasks: Which tasks a script of one op is for: a tag, or a pattern with ``*``.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
    """
    script = read_script(file)
    if script.whole and tasks != "*":
        raise ScheduleError(f"--task must go with a script of one op, {file.source} takes the whole payload; drop it")
    return OwnFamily(script, tasks)


def own_of(bundle: BundleFiles) -> OwnFamily | None:
    """The user's script that a bundle was tuned with; `None` where there was none.

    Raises:
        ScheduleError: This release cannot read it.
    """
    record = bundle.manifest.script
    if record is None:
        return None
    return open_own(ScriptFile(record.source, bundle.texts[OPEN]), record.tasks)


def own_in(about: Mapping[str, Any]) -> OwnFamily | None:
    """The user's script that a sweep of a store records; `None` where there is none.

    Raises:
        ScheduleError: This release cannot read it.
    """
    kept = about.get("script")
    return open_own(ScriptFile(kept["source"], kept["text"]), kept["tasks"]) if kept else None


def parts_of(payload: Payload, own: OwnFamily | None) -> Partition:
    """The tasks of a payload: itself, where a user's script takes it as a whole.

    Raises:
        ScheduleError: The script is for no task of the payload.
    """
    parts = partition(payload)
    if own is None:
        return parts
    if own.script.whole:
        flops = payload.flops or sum(needed_flops(task) * task.count for task in parts.tasks)
        return Partition(payload, (whole_task(replace(payload, flops=flops)),))
    if not any(own.covers(task) for task in parts.tasks):
        tags = ", ".join(task.tag for task in parts.tasks) or "none"
        raise ScheduleError(f"--task must match a task of {payload.name}: {tags}; got {own.tasks!r}")
    return parts


def rehearse_all(parts: Partition, own: OwnFamily, machine: Machine) -> tuple[str, ...]:
    """What a user would want to know of a script before it is searched, for every task that it is for."""
    notes = list(own.script.notes)
    for task in parts.tasks:
        if own.covers(task):
            chosen = own.choose(own.default(task, machine), machine, 1, task)
            try:
                notes += rehearse_script(Rehearsal(task.payload, task.payload.text, chosen))
            except ScheduleError as error:  # the process is gone; other configs may fare better
                notes.append(f"the config that the search begins with fails: {error}")
    return tuple(dict.fromkeys(notes))


def written(steps: Sequence[Step]) -> list[Step]:
    """Steps with users' own scripts written out, so that they stand in one script with others."""
    found = []
    for place, step in enumerate(steps):
        if step.chosen is None:
            found.append(step)
        elif not step.chosen.tag:
            found.append(replace(step, chosen=None, whole=headed(step.note, script_text(step.chosen))))
        else:
            text, body = script_sequences(step.chosen, f"own_{place}_")
            found.append(replace(step, chosen=None, sequences=text, body=body))
    return found


def headed(note: str, text: str) -> str:
    """A script below a note."""
    return "".join(f"// {line}\n" for line in note.splitlines()) + text
