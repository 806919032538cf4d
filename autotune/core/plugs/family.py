"""How tasks are transformed: the `Family` that writes scripts for them, and the `Baseline` it is measured against."""

from dataclasses import dataclass
from typing import Protocol

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Space
from autotune.core.task import Task


@dataclass(frozen=True)
class Blocks:
    """What a group with an online softmax is computed in.

    Attributes:
        rows: Rows of a block; divides them.
        columns: Columns of a block; divides them.
        skips: Blocks that a causal mask hides whole are skipped.
    """

    rows: int
    columns: int
    skips: bool = False

    @property
    def text(self) -> str:
        """The inside of the attribute that says so in a script."""
        return f"rows = {self.rows}, columns = {self.columns}, skips = {str(self.skips).lower()}"


@dataclass(frozen=True)
class Rewrites:
    """What happens to a task's op before the script sees it, which no op of the transform dialect can do.

    Attributes:
        panel: Columns of the panels that its constant B is stored in before any call; 0 leaves it as it is. The op then
            reads B as (k, n), rows of a panel at a time.
        blocks: Block sizes of the loops that a task that may go online becomes; `None` leaves it as it is. ``%op`` is
            then the outermost loop; ops inside are matched by ``autotune.part`` (`compiler/passes/online_softmax.py`).
        precision: What its operands are rounded to, one of `core.precision.PRECISIONS`; empty for what they are. The op
            is then one of words, which code of ours computes tile by tile (`compiler/passes/narrow.py`).
    """

    panel: int = 0
    blocks: Blocks | None = None
    precision: str = ""


class Family(Protocol):
    """A family of schedules: declares its knobs for a task and writes transform-dialect text for a config.

    Plug-ins register an instance under the entry-point group ``autotune.schedules``. Where several cover a task, one
    that has an attribute ``specific`` above 0 comes before those that say nothing, the highest first; one that has a
    true attribute ``asked`` is searched only where somebody names it.
    """

    @property
    def name(self) -> str:
        """How users and records name it."""
        ...

    @property
    def fallback(self) -> bool:
        """Whether it steps in only where no other family covers a task."""
        ...

    def covers(self, task: Task) -> bool:
        """Tell whether this family can schedule the task."""
        ...

    def space(self, task: Task, machine: Machine) -> Space:
        """Give the knobs, their values and the joint constraints."""
        ...

    def default(self, task: Task, machine: Machine) -> Config:
        """Give a config that is good without any search; it satisfies the space's constraints."""
        ...

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the body that transforms ``%op``, one handle to the task's op, in terms of tensors and vectors.

        Handles that are used must hold something, else the trial is ``transform-failed``; an op whose result may be
        empty is marked ``{autotune.optional}``.

        Returns:
            Transform-dialect operations, one a line, without the surrounding named sequence.
        """
        ...

    def rewrites(self, task: Task, config: Config) -> Rewrites:
        """Tell what `build` takes for granted of the op."""
        ...


@dataclass(frozen=True)
class Baseline:
    """A classic pass pipeline from linalg on tensors to the LLVM dialect.

    Attributes:
        name: Name that users know the baseline by.
        pipeline: MLIR's textual pass pipeline, ``builtin.module(...)``.
    """

    name: str
    pipeline: str
