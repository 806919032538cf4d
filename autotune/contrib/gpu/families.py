"""Families of kernels: what each covers, lets choose, and writes."""

from typing import Protocol

from autotune.contrib.gpu.device import Device
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
    """All families that cover a task, the one that is searched first."""
    return [family for family in FAMILIES if family.covers(task)]


def names() -> list[str]:
    """What there are kernels for."""
    return [family.name for family in FAMILIES]
