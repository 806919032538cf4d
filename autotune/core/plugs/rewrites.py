"""`Rewrites`: rewrites of a task's op that are applied before its script, and rewrites of compiled code."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocks:
    """Block sizes of a fusion group with an online softmax.

    Attributes:
        rows: Rows of a block; divides the number of rows.
        columns: Columns of a block; divides the number of columns.
        skips: Whether blocks that a causal mask hides completely are skipped.
    """

    rows: int
    columns: int
    skips: bool = False

    @property
    def text(self) -> str:
        """Entries of the dictionary attribute that describes the blocks in a script."""
        return f"rows = {self.rows}, columns = {self.columns}, skips = {str(self.skips).lower()}"


@dataclass(frozen=True)
class NeededRewrite:
    """A rewrite of compiled code that a script requests by attributes of its ops.

    Attributes:
        name: Name of the rewrite.
        version: Version of the rewrite, part of a program's identity.
        why: Purpose, for users.
    """

    name: str
    version: int
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


MASKED_ENDS = NeededRewrite("masked-ends", 1)


@dataclass(frozen=True)
class Rewrites:
    """Rewrites of a task's op that are applied before the script, as no op of the transform dialect implements them.

    Attributes:
        panel: Columns of the panels that a constant B is packed into before any call; 0 for no packing. The op then
            reads B as (k, n), rows of a panel at a time.
        blocks: Block sizes of the loop nest that a task with an online softmax is rewritten to; `None` for no rewrite.
            ``%op`` is then the outermost loop; ops inside are matched by ``autotune.part``
            (`compiler/passes/online_softmax.py`).
        precision: Precision that its operands are rounded to, one of `core.precision.PRECISIONS`: the op is then one
            of packed words, computed tile by tile (`compiler/passes/narrow.py`). Or the name of another form that its
            weight is stored in (`core/plugs/weight_form.py`). Empty for neither.
        needed: Rewrites of compiled code that the script requests.
    """

    panel: int = 0
    blocks: Blocks | None = None
    precision: str = ""
    needed: tuple[NeededRewrite, ...] = ()
