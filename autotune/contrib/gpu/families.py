"""Families of kernels: what each covers, lets choose, and writes."""

from typing import Protocol

from autotune.contrib.gpu.device import VULKAN, Device
from autotune.contrib.gpu.matmul import GpuMatmul
from autotune.contrib.gpu.rows import GpuRows
from autotune.core.space import Config, Space
from autotune.core.task import Task


class GpuFamily(Protocol):
    """A family of schedules that end in a kernel."""

    @property
    def name(self) -> str:
        """How people name what it covers."""
        ...

    def covers(self, task: Task) -> bool:
        """Tell whether it can write a kernel of the task."""
        ...

    def space(self, task: Task, device: Device) -> Space:
        """The knobs, and the constraints between them and of the device."""
        ...

    def default(self, task: Task, device: Device) -> Config:
        """A config that is good without any search."""
        ...

    def build(self, task: Task, config: Config, device: Device) -> str:
        """The whole transform script."""
        ...


FAMILIES: tuple[GpuFamily, ...] = (GpuMatmul(), GpuRows())


def covering(task: Task) -> GpuFamily | None:
    """The first family that covers a task."""
    return next(iter(families_of(task)), None)


def families_of(task: Task) -> list[GpuFamily]:
    """All families that cover a task and have a config of it, the one that is searched first."""
    return [family for family in FAMILIES if family.covers(task) and broken_constraint(family, task) is None]


def broken_constraint(family: GpuFamily, task: Task) -> str | None:
    """The constraint of every device that no config of a covered task meets; `None` where one meets all."""
    space = family.space(task, VULKAN)
    if next(space.configs(), None) is not None:
        return None
    return space.broken_constraint({knob.name: knob.values[0] for knob in space.knobs})


def why_none(task: Task) -> str:
    """Why no family writes a kernel of a task."""
    for family in FAMILIES:
        if family.covers(task) and (broken := broken_constraint(family, task)) is not None:
            return f"by {family.name} {broken}, whatever its tiles; choose smaller sizes"
    return f"kernels for --target are written for {', '.join(names())}, it is none of them; leave --target out"


def names() -> list[str]:
    """What there are kernels for."""
    return [family.name for family in FAMILIES]
