"""Comparison of a payload's kernels by the cost model, for `compare --target`; nothing is timed."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.contrib.gpu.examine import KernelCall
from autotune.contrib.gpu.families import GpuFamily, families_of
from autotune.contrib.gpu.files import CHOSEN, SCHEDULE, task_folder
from autotune.contrib.gpu.folder import read_json, read_script
from autotune.contrib.gpu.records import GpuRecord, kernel_key
from autotune.contrib.gpu.tune import Examiner, KernelWorkshop, Units, only_task
from autotune.core.payload import Payload
from autotune.core.task import Task

FOUND = "found"  # name of the kernel of a folder


@dataclass(frozen=True)
class RankedKernel:
    """A kernel of a task.

    Attributes:
        task: Name of the task's payload.
        name: Origin of its script.
        record: Result of its evaluation.
    """

    task: str
    name: str
    record: GpuRecord

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as a JSON object."""
        return {"task": self.task, "name": self.name, **asdict(self.record)}


def rank_kernels(units: Units, folder: Path, workshop: KernelWorkshop) -> Iterator[RankedKernel]:
    """Evaluate, for each task, the default of each family that covers it, and the kernel of a folder.

    Args:
        units: Tasks of the payload.
        folder: Folder that `tune --target` wrote; it need not exist.
        workshop: Tools that compile and verify kernels.

    Raises:
        BundleError: The folder cannot be read.
        PayloadError: The oracle fails.
    """
    for unit in units.payloads:
        text, task, searched = only_task(unit)
        examiner, tuned = (
            Examiner(workshop, KernelCall(unit), text),
            task_folder(folder, unit.name, several=units.several),
        )
        for family in families_of(task):
            config = family.default(task, workshop.device)
            script = family.build(task, config, workshop.device)
            trial = examiner.trial(script, config, key_of(script, unit, workshop, family, task, text))
            yield RankedKernel(unit.name, f"default of {family.name}", trial.record)
        if (tuned / SCHEDULE).is_file():
            script, config = read_script(tuned), read_json(tuned / CHOSEN)["config"]
            trial = examiner.trial(script, config or {}, key_of(script, unit, workshop, searched, task, text))
            yield RankedKernel(unit.name, FOUND, trial.record)


def key_of(script: str, payload: Payload, workshop: KernelWorkshop, family: GpuFamily, task: Task, text: str) -> str:
    """Return the identity of a kernel."""
    return kernel_key(text, script, workshop.facts(payload, task, family), 0)
