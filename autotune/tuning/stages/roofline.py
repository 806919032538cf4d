"""Shares of the roof: what a program reaches of the machine's fused multiply-adds, measured beside it."""

from statistics import median

from autotune.core.host.machine import Machine
from autotune.core.scripts.user_family import WHOLE
from autotune.core.task import Member, Task
from autotune.core.trial import Samples
from autotune.worker.bench.roofs import reference_flops

QUIET_SHARE = 0.95  # of the roof: an FMA kernel below it was disturbed


def share_of_roof(flops: float, samples: Samples, machine: Machine) -> float:
    """Rate of a program over that of the FMA kernel that ran between its samples: drift of the machine cancels."""
    return share_beside(flops, samples.median, median(samples.reference_seconds), machine)


def share_beside(flops: float, seconds: float, reference_seconds: float, machine: Machine) -> float:
    """Rate of a program over that of the FMA kernel, by the seconds a call of each."""
    return (flops / seconds) / (reference_flops(machine) / reference_seconds)


def why_above(share: float | None, reference_seconds: float | None, machine: Machine, roof: float) -> str:
    """Why a share of the roof is above 100 %, in a sentence; empty where it is not.

    Args:
        share: Share of the FMA roof; `None` where it is unknown.
        reference_seconds: Seconds a call of the FMA kernel beside the program; `None` where it was not run.
        machine: The host.
        roof: Operations a second of the FMA kernel when the roofs were measured.
    """
    if share is None or share <= 1.0:
        return ""
    above = f"{share:.1%} of the FMA roof is more than there is"
    reached = reference_flops(machine) / reference_seconds / roof if reference_seconds else 1.0
    if reached < QUIET_SHARE:
        return (
            f"{above}: the FMA kernel beside it reached {reached:.0%} of what it did at the start, so that something "
            "else worked the core then; measure again when it is quiet"
        )
    return (
        f"{above}: the FMA kernel was as slow at the start as beside it, so that the core was busy all along, or the "
        "program does fewer operations than its payload counts; see autotune doctor"
    )


def roof_seconds(task: Task, samples: Samples | None, machine: Machine) -> float:
    """What the FMAs of a task's contractions alone take a call, at the best rate recorded beside the samples."""
    return needed_flops(task) * samples.quiet_reference / reference_flops(machine) if samples else 0.0


def needed_flops(task: Task) -> float:
    """Multiplications and additions that no schedule of a task can leave out: of a causal product, half."""
    if task.tag == WHOLE:
        return task.payload.flops
    alone = Member(task.nest, contraction=task.contraction, lanes=task.lanes)
    return sum(member.flops for member in task.members or (alone,) if member.has_products)
