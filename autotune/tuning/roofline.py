"""Shares of the roof: what a program reaches of the machine's fused multiply-adds, measured beside it."""

from statistics import median

from autotune.core.machine import Machine
from autotune.core.own_family import WHOLE
from autotune.core.task import Task
from autotune.core.trial import Samples
from autotune.worker.roofs import reference_flops


def share_of_roof(flops: float, samples: Samples, machine: Machine) -> float:
    """Rate of a program over that of the FMA kernel that ran between its samples: drift of the machine cancels."""
    return (flops / samples.median) / (reference_flops(machine) / median(samples.reference_seconds))


def roof_seconds(task: Task, samples: Samples | None, machine: Machine) -> float:
    """What the FMAs of a task's contractions alone take a call, at the best rate recorded beside the samples."""
    return needed_flops(task) * samples.quiet_reference / reference_flops(machine) if samples else 0.0


def needed_flops(task: Task) -> float:
    """Multiplications and additions that no schedule of a task can leave out: of a causal product, half."""
    if task.tag == WHOLE:
        return task.payload.flops
    if not task.members:
        return sum(c.flops for c in task.contractions)
    return sum(member.flops for member in task.members if member.contraction)
