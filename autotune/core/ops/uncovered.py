"""What no task covers of a payload: it runs as the plain lowering has it, whatever is searched."""

from dataclasses import dataclass

NO_FAMILY = "no family of schedules covers it"


@dataclass(frozen=True)
class UncoveredOp:
    """An op, or a loop, of a payload that no schedule changes.

    Attributes:
        name: Name for people: kind and sizes, ``elementwise 2x4x4x1024``.
        runs: Executions in one call of the payload.
        operations: Scalar operations of all executions in a call, those that compute indices included.
        why: Why no task has it, or no family, a phrase.
    """

    name: str
    runs: int
    operations: float
    why: str


@dataclass(frozen=True)
class UncoveredShare:
    """An op that no schedule changes, with its part of a call.

    Attributes:
        op: The op.
        share: Part of a call's time; `None` where that was not measured. What the tasks alone do not take of a call is
            divided among all such ops by their operations.
    """

    op: UncoveredOp
    share: float | None


def divide(ops: tuple[UncoveredOp, ...], call_seconds: float, task_seconds: float | None) -> tuple[UncoveredShare, ...]:
    """The part of a call that each of these ops takes, those of most operations first.

    Args:
        ops: All ops that no schedule changes.
        call_seconds: Seconds of one call of the whole.
        task_seconds: Seconds that all scheduled tasks take in a call, each measured alone; `None` where one was not.

    Example:
        >>> ops = (UncoveredOp("pad 8x8", 1, 100, "it pads"), UncoveredOp("copy 8", 1, 300, "it copies"))
        >>> [(each.op.name, each.share) for each in divide(ops, 4.0, 2.0)]
        [('copy 8', 0.375), ('pad 8x8', 0.125)]
    """
    everything = sum(op.operations for op in ops)
    rest = max(0.0, 1.0 - task_seconds / call_seconds) if task_seconds is not None else None
    ordered = sorted(ops, key=lambda op: -op.operations)
    return tuple(
        UncoveredShare(op, rest * op.operations / everything if rest is not None and everything else None)
        for op in ordered
    )
