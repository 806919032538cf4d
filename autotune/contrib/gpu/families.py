"""Schedule families of kernels: the tasks that each covers, its search space and its scripts."""

from typing import Protocol

from autotune.contrib.gpu.device import VULKAN, Device
from autotune.contrib.gpu.matmul import GpuMatmul
from autotune.contrib.gpu.rows import GpuRows
from autotune.core.space import Config, Space
from autotune.core.task import Task


class GpuFamily(Protocol):
    """A family of schedules that lower a task to a kernel."""

    @property
    def name(self) -> str:
        """Human-readable name of the covered tasks."""
        ...

    def covers(self, task: Task) -> bool:
        """Return whether the family covers the task."""
        ...

    def space(self, task: Task, device: Device) -> Space:
        """Return the knobs and the constraints on them, including those of the device."""
        ...

    def default(self, task: Task, device: Device) -> Config:
        """Return the default config, which is used without a search."""
        ...

    def build(self, task: Task, config: Config, device: Device) -> str:
        """Return the complete transform script of a config."""
        ...


FAMILIES: tuple[GpuFamily, ...] = (GpuMatmul(), GpuRows())


def covering(task: Task) -> GpuFamily | None:
    """Return the first family that covers a task; `None` if there is none."""
    return next(iter(families_of(task)), None)


def families_of(task: Task) -> list[GpuFamily]:
    """Return the families that cover a task and have a valid config of it; the first one is searched."""
    return [family for family in FAMILIES if family.covers(task) and broken_constraint(family, task) is None]


def broken_constraint(family: GpuFamily, task: Task) -> str | None:
    """Return a constraint of the Vulkan device that is violated if no config of a task is valid; `None` if one is."""
    space = family.space(task, VULKAN)
    if next(space.configs(), None) is not None:
        return None
    return space.broken_constraint({knob.name: knob.values[0] for knob in space.knobs})


def why_none(task: Task) -> str:
    """Explain why no family covers a task."""
    for family in FAMILIES:
        if family.covers(task) and (broken := broken_constraint(family, task)) is not None:
            return f"by {family.name} {broken}, whatever its tiles; choose smaller sizes"
    return f"kernels for --target are written for {', '.join(names())}, it is none of them; leave --target out"


def names() -> list[str]:
    """Return the names of all families."""
    return [family.name for family in FAMILIES]
