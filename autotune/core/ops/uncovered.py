"""Ops of a payload that no task covers: they keep the plain lowering, whatever the search finds."""

from dataclasses import dataclass

NO_FAMILY = "no family of schedules covers it"


@dataclass(frozen=True)
class UncoveredOp:
    """An op, or a loop, of a payload that no schedule changes.

    Attributes:
        name: Readable name, kind and sizes: ``elementwise 2x4x4x1024``.
        runs: Executions in one call of the payload.
        operations: Scalar operations of all executions in a call, including those that compute indices.
        why: Reason why no task or no family covers it, a phrase.
    """

    name: str
    runs: int
    operations: float
    why: str


@dataclass(frozen=True)
class UncoveredShare:
    """An op that no schedule changes, with its share of a call's time.

    Attributes:
        op: The op.
        share: Estimated share of a call's time: the time that tasks do not take is divided among all such ops in
            proportion to their operations. `None` where it was not measured.
    """

    op: UncoveredOp
    share: float | None


def divide(ops: tuple[UncoveredOp, ...], call_seconds: float, task_seconds: float | None) -> tuple[UncoveredShare, ...]:
    """Estimate the share of a call's time that each uncovered op takes; the most operations come first.

    Args:
        ops: All ops that no schedule changes.
        call_seconds: Seconds of one call of the whole.
        task_seconds: Sum of the seconds a call of all scheduled tasks, each measured alone; `None` where one was not.

    Example:
        >>> ops = (UncoveredOp("pad 8x8", 1, 100, "it pads"), UncoveredOp("copy 8", 1, 300, "it copies"))
        >>> [(each.op.name, each.share) for each in divide(ops, 4.0, 2.0)]
        [('copy 8', 0.375), ('pad 8x8', 0.125)]
    """
    operations = sum(op.operations for op in ops)
    rest = max(0.0, 1.0 - task_seconds / call_seconds) if task_seconds is not None else None
    ordered = sorted(ops, key=lambda op: -op.operations)
    return tuple(
        UncoveredShare(op, rest * op.operations / operations if rest is not None and operations else None)
        for op in ordered
    )
