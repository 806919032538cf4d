"""Entry point of the debugger: resolve a payload and a schedule, and record them step by step."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autotune.bundles.candidates import recorded_candidate
from autotune.contrib.debug.record import ChangedScript, DebugRequest, record
from autotune.contrib.debug.recording import DebugRecording
from autotune.contrib.debug.stepper import DebugLimits
from autotune.core.candidate import Candidate
from autotune.core.errors import AutotuneError, ScheduleError
from autotune.core.host.files import holds
from autotune.core.host.machine import this_machine
from autotune.core.payload import Payload
from autotune.core.scripts.parametric import ChosenScript
from autotune.reports.scheduled import as_recorded, candidate_of, only, recorded_tasks, with_knobs
from autotune.reports.show import read_own
from autotune.reports.winner import is_bundle
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.stages.user_script import open_own, own_of, parts_of
from autotune.worker.loading.reading import ScriptFile, open_payload

SIZES = re.compile(r"((?:tile_sizes|num_threads|vector_sizes) )\[(\d+(?:, *\d+)*)\]")
MOST_VALUES = 6  # knobs with more values are not varied


def debug(
    payload: Payload | str,
    schedule: str | Path | None = None,
    *,
    task: str | None = None,
    knobs: str = "",
    skip: Sequence[int] = (),
    edits: Sequence[tuple[int, str, str]] = (),
    variants: bool = False,
    lowering: bool = False,
    seconds: float = DebugLimits.seconds,
) -> DebugRecording:
    """Apply a schedule to a payload step by step, in an isolated process.

    Args:
        payload: A payload, its spec, or the folder of a bundle.
        schedule: Transform script of the user: a file that ends in ``.mlir``, or its text. By default that of the
            payload's file or bundle, else the families' scripts.
        task: Tag of the task to record alone.
        knobs: Values of knobs of that task, ``name=value,...``.
        skip: Numbers of steps to skip.
        edits: Text replacements in the script: line, old and new text.
        variants: Whether to record variants with single changes: each step skipped, other values of knobs and sizes.
        lowering: Whether to include the lowering that all schedules share.
        seconds: Time after which the rest is recorded by whole calls.

    Raises:
        AutotuneError: Payload, schedule, task or knob does not exist; the message says which.
    """
    named, candidate = open_source(payload, schedule, task, knobs)
    candidate = edited(candidate, edits)
    limits = DebugLimits(seconds, skip=tuple(skip), lanes=this_machine().lanes)
    changed = candidates_around(payload, schedule, task, candidate) if variants else ()
    return record(DebugRequest(named, candidate, lowering, limits, changed))


def open_source(
    source: Payload | str, schedule: str | Path | None, task: str | None, knobs: str
) -> tuple[Payload, Candidate]:
    """Return a payload and the candidate to compile it with; arguments and errors as of `debug`."""
    machine = this_machine()
    folder = Path(source) if isinstance(source, str) else None
    bundle = read_bundle(folder) if folder is not None and holds(folder, MANIFEST_FILE) else None
    if bundle is not None and schedule is not None:
        raise ScheduleError(f"--schedule must go with a payload, {source} is a bundle, which has its own; drop it")
    payload = bundle.payload if bundle else open_payload(source) if isinstance(source, str) else source
    if bundle is not None and task is None and not knobs:
        return payload, recorded_candidate(bundle)
    own = own_of(bundle) if bundle else open_own(script_file(schedule)) if schedule else read_own(payload, None)
    parts, recorded = parts_of(payload, own), recorded_tasks(bundle) if bundle is not None else None
    if task is None and not knobs:
        whole = [as_recorded(each, recorded, machine, own) for each in parts.tasks]
        return payload, candidate_of(whole, machine, parts.payload.text)
    alone = as_recorded(only(parts.tasks, task, "knobs are of one task"), recorded, machine, own)
    alone = with_knobs(alone, knobs, machine) if knobs else alone
    return alone.task.payload, candidate_of([alone], machine)


def script_file(schedule: str | Path) -> ScriptFile:
    """Return a script from a file or from its text."""
    if isinstance(schedule, Path) or (schedule.endswith(".mlir") and "\n" not in schedule):
        return ScriptFile.read(Path(schedule))
    return ScriptFile("schedule", schedule)


def edited(candidate: Candidate, edits: Sequence[tuple[int, str, str]]) -> Candidate:
    """Return a candidate with text replacements in its script.

    Raises:
        ScheduleError: The old text does not occur in its line.
    """
    script = candidate.script
    lines = (script.text if isinstance(script, ChosenScript) else script or "").split("\n")
    for line, old, new in edits:
        if not old or not 0 < line <= len(lines) or old not in lines[line - 1]:
            raise ScheduleError(f"an edit must replace a text of line {line} of the script, {old!r} is not there")
        lines[line - 1] = lines[line - 1].replace(old, new, 1)
    text = "\n".join(lines)
    return replace(candidate, script=replace(script, text=text) if isinstance(script, ChosenScript) else text)


def candidates_around(
    source: Payload | str, schedule: str | Path | None, task: str | None, candidate: Candidate
) -> tuple[ChangedScript, ...]:
    """Return variants of a script with one change each: tile sizes halved or doubled, other values of knobs."""
    script = candidate.script
    text = script.text if isinstance(script, ChosenScript) else script or ""
    variants = []
    for line, words in enumerate(text.split("\n"), 1):
        if (sizes := SIZES.search(words)) is not None:
            for new in other_sizes(sizes[2]):
                variant = edited(candidate, [(line, sizes[0], f"{sizes[1]}[{new}]")])
                variants.append(ChangedScript(f"line {line}: [{sizes[2]}] becomes [{new}]", variant))
    return (*variants, *other_knobs(source, schedule, task, candidate))


def other_sizes(sizes: str) -> Iterator[str]:
    """Yield lists of tile sizes with one of them halved or doubled."""
    numbers = [int(size) for size in sizes.split(",")]
    for index, number in enumerate(numbers):
        for other in (number // 2, number * 2):
            if other and number:
                yield ", ".join(map(str, [*numbers[:index], other, *numbers[index + 1 :]]))


def other_knobs(
    source: Payload | str, schedule: str | Path | None, task: str | None, candidate: Candidate
) -> Iterator[ChangedScript]:
    """Yield a variant for every other value of every knob of a task."""
    payload = open_payload(source) if isinstance(source, str) and not is_bundle(source) else source
    if isinstance(payload, str):
        return
    own = open_own(script_file(schedule)) if schedule else read_own(payload, None)
    tasks = [each for each in parts_of(payload, own).tasks if task in (None, each.tag)]
    if len(tasks) != 1:
        return
    machine = this_machine()
    alone = as_recorded(tasks[0], None, machine, own)
    for knob in alone.family.space(alone.task, machine).knobs if alone.family is not None else ():
        for value in knob.values if len(knob.values) <= MOST_VALUES else ():
            if alone.config is not None and value != alone.config[knob.name]:
                with suppress(AutotuneError):  # a violated constraint
                    changed = with_knobs(alone, f"{knob.name}={value}", machine)
                    variant = candidate_of([changed], machine, candidate.text)
                    yield ChangedScript(f"{knob.name} = {value}", variant, knob=knob.name)
