"""`Partition`: the tasks of a payload."""

from dataclasses import dataclass, field

from autotune.core.ops.uncovered import UncoveredOp
from autotune.core.payload import Payload
from autotune.core.scripts.rules import Rewriting
from autotune.core.task import Task


@dataclass(frozen=True)
class Partition:
    """A payload with its tunable ops tagged, and the task of each tag.

    Attributes:
        payload: Payload of the same computation; every tunable op carries the attribute ``autotune.task``.
        tasks: Task of each distinct tag, in order of first appearance.
        rewriting: Result of the rewrite rules that were applied before.
        uncovered: Ops that no task covers.
    """

    payload: Payload
    tasks: tuple[Task, ...]
    rewriting: Rewriting = field(default_factory=Rewriting)
    uncovered: tuple[UncoveredOp, ...] = ()
