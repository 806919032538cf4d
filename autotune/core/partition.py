"""`Partition`: a payload cut into its tasks."""

from dataclasses import dataclass, field

from autotune.core.ops.uncovered import UncoveredOp
from autotune.core.payload import Payload
from autotune.core.scripts.rules import Rewriting
from autotune.core.task import Task


@dataclass(frozen=True)
class Partition:
    """A module with its tunable ops tagged, and what the tags stand for.

    Attributes:
        payload: The same computation; every tunable op carries ``autotune.task``.
        tasks: One for each distinct tag, in order of first appearance.
        rewriting: What rewrite rules made of the payload before.
        uncovered: Ops that no task covers.
    """

    payload: Payload
    tasks: tuple[Task, ...]
    rewriting: Rewriting = field(default_factory=Rewriting)
    uncovered: tuple[UncoveredOp, ...] = ()
