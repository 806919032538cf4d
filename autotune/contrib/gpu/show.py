"""Compilation stages of a kernel, for `show --target`: script, kernel, SPIR-V, PTX and machine code."""

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from autotune.contrib.gpu import nvptx
from autotune.contrib.gpu.device import Device, find_device
from autotune.contrib.gpu.examine import check_types
from autotune.contrib.gpu.families import GpuFamily
from autotune.contrib.gpu.files import is_kernel_folder, task_folder
from autotune.contrib.gpu.folder import read_folder, read_script
from autotune.contrib.gpu.kernel import KernelSource
from autotune.contrib.gpu.stage import StageJob, write_stage
from autotune.contrib.gpu.tune import Units, only_task, units_of
from autotune.core.errors import PayloadError, SpaceError
from autotune.core.evaluator import Evaluation
from autotune.core.payload import Payload
from autotune.core.printable import did_you_mean, one_line
from autotune.core.space import Config, Space
from autotune.core.task import Task
from autotune.reports.scheduled import read_knobs
from autotune.reports.space import sentences_of, space_table
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker

STAGES = ("payload", "tasks", "space", "schedule", "scheduled", "spirv", "ptx", "sass")
OF_CHIPS = ("ptx", "sass")
DEFAULT = "default"


@dataclass(frozen=True)
class ShownTask:
    """A task whose kernel is shown.

    Attributes:
        payload: The task as a payload.
        text: The task as MLIR, its operation tagged.
        task: The task.
        family: Family that covers it.
        device: Target device.
        script: Script of the user or of a folder; empty for the family's.
    """

    payload: Payload
    text: str
    task: Task
    family: GpuFamily
    device: Device
    script: str = ""

    @property
    def space(self) -> Space:
        """Search space of the task."""
        return self.family.space(self.task, self.device)

    def config(self, knobs: str | None) -> Config:
        """Return the default config with knobs overridden by ``name=value,...``.

        Raises:
            SpaceError: A knob or value is not in the space, or a constraint is violated.
        """
        config = dict(self.family.default(self.task, self.device))
        if not knobs:
            return config
        config |= read_knobs(knobs, self.space)
        self.space.check(config)
        if broken := self.space.broken_constraint(config):
            raise SpaceError(f"{broken}; got {one_line(knobs)[:200]}")
        return config

    def script_of(self, knobs: str | None) -> str:
        """Return the transform script of a config, or the given script.

        Raises:
            PayloadError: Both a script and knobs are given.
        """
        if self.script and knobs:
            raise PayloadError("knobs are of a family's script, a script of its own is shown; leave out --config")
        return self.script or self.family.build(self.task, self.config(knobs), self.device)

    def show(self, stage: str, knobs: str | None, worker: Worker) -> str:
        """Return the text of a stage.

        Raises:
            CompileError: The compiler rejects the kernel before that stage.
            MachineError: A tool is missing.
            PayloadError: The device has no such stage, or the worker failed.
        """
        if stage == "payload":
            return self.text
        if stage == "space":
            return self.describe_space()
        script = self.script_of(knobs)
        if stage == "schedule":
            return script
        if stage in OF_CHIPS and not self.device.chip:
            raise PayloadError(
                f"stage {stage} must be of a chip, {self.device.name} has none; give --target nvptx:CHIP"
            )
        wanted = "ptx" if stage == "sass" else stage
        result = worker.call(write_stage, StageJob(KernelSource(self.text, script, self.device), wanted))
        if isinstance(result, Evaluation):
            raise PayloadError(f"a script must end, the process that applied it {result.outcome}: {result.diagnostic}")
        return nvptx.disassemble(result, self.device.chip) if stage == "sass" else result

    def describe_space(self) -> str:
        """Describe the search space, as a table and sentences."""
        space, default = self.space, self.family.default(self.task, self.device)
        title = f"{self.task.tag} by {self.family.name} for {self.device.name}"
        return "\n".join([*space_table(title, space, default), *sentences_of(space)])


def show_stage(source: str, target: str, stage: str, *, task: str | None, config: str | None, script: str) -> str:
    """Return the text of a stage of a payload's kernel.

    Args:
        source: Spec of a payload, or a folder that `tune --target` wrote.
        target: Name of the device; empty for the folder's.
        stage: One of `STAGES`.
        task: Tag of the task, if there are several.
        config: Knobs as ``name=value,...``.
        script: Transform script of the user; empty for the family's or the folder's.

    Raises:
        PayloadError: The payload, stage or task is unknown.
        CompileError: The compiler rejects the kernel before that stage.
    """
    if stage not in STAGES:
        hint = did_you_mean(stage, STAGES)
        raise PayloadError(
            f"stage of a kernel must be one of {', '.join(STAGES)}; got {stage!r}{'; ' * bool(hint)}{hint}"
        )
    folder = Path(source) if is_kernel_folder(Path(source)) else None
    kernel_folder = read_folder(folder) if folder is not None else None
    payload = kernel_folder.payload if kernel_folder is not None else open_payload(source)
    device = find_device(target) if target or kernel_folder is None else kernel_folder.device
    check_types(payload)
    units = units_of(payload, verified=False)
    if stage == "tasks":
        return "\n".join(list_tasks(units))
    number = chosen_unit(units, task)
    unit = units.payloads[number]
    if folder is not None and not script and not config:
        script = read_script(task_folder(folder, unit.name, several=units.several))
    text, own, family = only_task(unit)
    with Worker() as worker:
        return ShownTask(unit, text, own, family, device, script).show(stage, config, worker)


def show_difference(source: str, target: str, stage: str, sides: tuple[str, str], task: str | None) -> str:
    """Return a unified diff between two stages, or two configs at a stage; arguments as of `show_stage`."""
    if all(side in STAGES for side in sides):
        texts = [show_stage(source, target, side, task=task, config=None, script="") for side in sides]
    else:
        knobs = [None if side == DEFAULT else side for side in sides]
        texts = [show_stage(source, target, stage, task=task, config=each, script="") for each in knobs]
    before, after = (text.splitlines() for text in texts)
    return "\n".join(unified_diff(before, after, *sides, n=3, lineterm="")) or f"{sides[0]} and {sides[1]} are the same"


def list_tasks(units: Units) -> list[str]:
    """Return a line for each task, and one for each that no family covers."""
    lines = []
    for number, unit in enumerate(units.payloads):
        _, task, family = only_task(unit)
        lines.append(f"{units.tags[number] if units.several else task.tag}  {unit.name}  {family.name}")
    return [*lines, *(f"no kernel: {name}" for name in units.without)]


def chosen_unit(units: Units, tag: str | None) -> int:
    """Return the index of the task with a tag; without a tag, of the only task.

    Raises:
        PayloadError: There is no such task, or no tag is given for several tasks.
    """
    tags = units.tags if units.several else (only_task(units.payloads[0])[1].tag,)
    matches = [number for number, each in enumerate(tags) if tag in (None, each)]
    if len(matches) != 1:
        got = f"got {tag!r}" if tag is not None else "a kernel is of one task"
        raise PayloadError(f"--task must be one of {', '.join(tags)}; {got}")
    return matches[0]
