"""Share of the roof: rate of a program relative to that of an FMA kernel that is measured beside it."""

from collections.abc import Iterable, Mapping
from statistics import median

from autotune.core.host.machine import Machine
from autotune.core.task import Task
from autotune.core.trial import Samples
from autotune.core.winner_time import ROOF_ERROR, STEADY_SHARE, Interference
from autotune.registry import roof_of_family
from autotune.store.bundle import SCHEDULE, BundleFiles
from autotune.worker.bench.roofs import reference_flops

QUIET_SHARE = 0.95  # share of the recorded roof below which the FMA kernel was disturbed
NARROW = ("f16", "bf16", "i8")


def share_of_roof(flops: float, samples: Samples, machine: Machine) -> float:
    """Return the rate of a program over that of the FMA kernel between its samples, in which drift cancels."""
    return share_beside(flops, samples.median, median(samples.reference_seconds), machine)


def share_beside(flops: float, seconds: float, reference_seconds: float, machine: Machine) -> float:
    """Return the rate of a program over that of the FMA kernel, from the seconds a call of each."""
    return (flops / seconds) / (reference_flops(machine) / reference_seconds)


def why_above(share: float | None, reference_seconds: float | None, machine: Machine, roof: float) -> str:
    """Return a sentence on why a share of the roof is above 1; empty where it is not.

    Args:
        share: Share of the FMA roof; `None` where it is unknown.
        reference_seconds: Seconds a call of the FMA kernel beside the program; `None` where it was not run.
        machine: The host.
        roof: Operations a second of the FMA kernel when the roofs were measured; 0 where that is unknown.
    """
    if share is None or share <= 1.0:
        return ""
    above = "it would be faster than the FMA roof, which is all there is"
    reached = reference_flops(machine) / reference_seconds / roof if reference_seconds and roof else 1.0
    if reached < QUIET_SHARE:
        return (
            f"{above}: the FMA kernel beside it reached {reached:.0%} of what it did at the start, so that something "
            "else used the core then; measure again when it is quiet"
        )
    return (
        f"{above}: the FMA kernel was as slow at the start as beside it, so that the core was busy all along, or the "
        "program does fewer operations than its payload counts; see autotune doctor"
    )


def may_exceed_roof(dtypes: Iterable[str], script: str, *, is_rewritten: bool) -> bool:
    """Return whether a program may exceed the roof, with fewer operations than nominal, or with narrower types.

    Args:
        dtypes: Element types of its arguments.
        script: Schedule of the program.
        is_rewritten: Whether operands are rounded, rules changed the payload, or there are external kernels.
    """
    return is_rewritten or "winograd" in script or any(dtype in NARROW for dtype in dtypes)


def bundle_may_exceed_roof(bundle: BundleFiles) -> bool:
    """Return whether the program of a bundle may exceed the roof; see `may_exceed_roof`."""
    data = bundle.manifest
    changed = data.budget is not None or data.rules is not None or bool(data.kernels)
    return may_exceed_roof((a.dtype for a in data.arguments), str(bundle.texts[SCHEDULE]), is_rewritten=changed)


def why_unsteady(
    share: float | None, interference: Interference, reference_seconds: float | None, machine: Machine, roof: float
) -> str:
    """Return a sentence on why the times of a program are invalid; empty where they are valid.

    Args:
        share: Share of the FMA roof; `None` where it is unknown, or may be above 1.
        interference: Slowdown of the samples by other work.
        reference_seconds: Seconds a call of the FMA kernel beside the program; `None` where it was not run.
        machine: The host.
        roof: Operations a second of the FMA kernel when the roofs were measured; 0 where that is unknown.
    """
    reached = 1 / interference.drift
    if reference_seconds and roof:
        reached = min(reached, reference_flops(machine) / reference_seconds / roof)
    if reached < STEADY_SHARE:
        return (
            f"the FMA kernel beside it usually reached {reached:.0%} of its best, so that something else used the "
            "core; measure again when it is quiet, see autotune doctor"
        )
    if interference.is_large:
        return (
            f"it usually took {interference.spread:.1f} times as long as at its best, so that something else used the "
            "core; measure again when it is quiet, see autotune doctor"
        )
    return why_above(share, reference_seconds, machine, roof) if share is not None and share > ROOF_ERROR else ""


def weighted_flops(flops: float, tasks: Iterable[tuple[str, float]], rates: Mapping[str, float]) -> float:
    """Return the operations of a whole in equivalent f32 FMAs, each task weighted by the peak rate of its unit.

    Args:
        flops: Operations of the whole.
        tasks: Schedule of every task, and its operations in a call of the whole.
        rates: Peak rates of the machine, by names of fields of `autotune.core.host.machine.Roofs`.

    Example:
        >>> weighted_flops(10.0, [("matmul", 4.0), ("bf16", 6.0)], {"flops": 1e11, "bf16": 2e11})
        7.0
    """
    for schedule, count in tasks:
        if roof := roof_of_family(schedule, rates):
            flops -= count * (1 - rates["flops"] / roof)
    return flops


def roof_seconds(task: Task, samples: Samples | None, machine: Machine) -> float:
    """Return the least seconds a call of a task's operations, at the best FMA rate recorded; 0 without samples."""
    return task.needed_flops * samples.quiet_reference / reference_flops(machine) if samples else 0.0
