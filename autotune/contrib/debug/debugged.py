"""A payload and a schedule as somebody names them, recorded step by step."""

from collections.abc import Sequence
from pathlib import Path

from autotune.bundles.candidates import recorded_candidate
from autotune.contrib.debug.record import DebugRequest, record
from autotune.contrib.debug.recording import DebugRecording
from autotune.contrib.debug.stepper import DebugLimits
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import this_machine
from autotune.core.payload import Payload
from autotune.reports.scheduled import as_recorded, candidate_of, only, recorded_tasks, with_knobs
from autotune.reports.show import read_own
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.stages.user_script import open_own, own_of, parts_of
from autotune.worker.loading.reading import ScriptFile, open_payload


def debug(
    payload: Payload | str,
    schedule: str | Path | None = None,
    *,
    task: str | None = None,
    knobs: str = "",
    skip: Sequence[int] = (),
    lowering: bool = False,
    seconds: float = DebugLimits.seconds,
) -> DebugRecording:
    """Apply a schedule to a payload step by step, in an isolated process.

    Args:
        payload: A payload, its spec, or the folder of a bundle.
        schedule: A transform script of the user's own: a file that ends in ``.mlir``, or its text. By default that of
            the payload's file or bundle, else what families write.
        task: Tag of the task to look at alone.
        knobs: Values of knobs of that task, ``name=value,...``.
        skip: Numbers of steps to leave out.
        lowering: Whether the lowering that all schedules share is part of it.
        seconds: Time after which steps are no longer single.

    Raises:
        AutotuneError: Payload, schedule, task or knob is not there; the message says which.
    """
    named, candidate = open_source(payload, schedule, task, knobs)
    return record(DebugRequest(named, candidate, lowering, DebugLimits(seconds, skip=tuple(skip))))


def open_source(
    source: Payload | str, schedule: str | Path | None, task: str | None, knobs: str
) -> tuple[Payload, Candidate]:
    """A payload and how it is compiled; arguments and errors as of `debug`."""
    machine = this_machine()
    folder = Path(source) if isinstance(source, str) else None
    bundle = read_bundle(folder) if folder is not None and (folder / MANIFEST_FILE).exists() else None
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
    """A script in a file, or as text."""
    if isinstance(schedule, Path) or (schedule.endswith(".mlir") and "\n" not in schedule):
        return ScriptFile.read(Path(schedule))
    return ScriptFile("schedule", schedule)
