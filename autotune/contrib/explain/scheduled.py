"""Tasks with schedules of a bundle, or of a payload by default configs, as named on the command line."""

from dataclasses import dataclass
from pathlib import Path

from autotune.bundles.candidates import recorded_machine
from autotune.contrib.explain.ablation import winner_of
from autotune.core.errors import PayloadError
from autotune.core.host.files import holds
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.registry import load_family
from autotune.reports.scheduled import Scheduled, as_recorded, only, with_knobs
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.worker.loading.reading import open_payload, partition


@dataclass(frozen=True)
class ScheduledProgram:
    """Payload with the schedules of its tasks.

    Attributes:
        payload: The payload.
        tasks: Tasks of the payload, each with its family and config.
        text: Module with tagged tasks.
        machine: The host.
    """

    payload: Payload
    tasks: tuple[Scheduled, ...]
    text: str
    machine: Machine


def scheduled_of(source: str, task: str | None = None, config: str = "", family: str = "") -> ScheduledProgram:
    """Return the winner of a bundle, or a payload with default configs, with some knobs of one task changed.

    Args:
        source: Folder of a bundle, or spec of a payload.
        task: Tag of the task whose knobs are changed; by default the only one.
        config: Knobs to change, as ``name=value,...``.
        family: Family from a file with which the bundle was tuned, ``mine.py:FAMILY``.

    Raises:
        PayloadError: There is no such payload or no such task.
        SpaceError: The config is not in the task's space.
        BundleError: The bundle is refused.
    """
    if holds(source, MANIFEST_FILE):
        bundle = read_bundle(Path(source))
        machine, payload = recorded_machine(bundle), bundle.payload
        tasks, text = winner_of(bundle, machine, family)
    else:
        machine, payload = this_machine(), open_payload(source)
        parts, own = partition(payload), load_family(family) if family else None
        tasks = [as_recorded(each, None, machine, own) for each in parts.tasks]
        text = parts.payload.text
    if not tasks:
        raise PayloadError(f"a payload must have tasks to be explained, {payload.name} has none")
    if config:
        chosen = only([each.task for each in tasks], task, "--config is of one task")
        tasks = [with_knobs(each, config, machine) if each.task == chosen else each for each in tasks]
    return ScheduledProgram(payload, tuple(tasks), text, machine)
