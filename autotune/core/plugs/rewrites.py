"""`Rewrites`: what happens to a task's op before its script sees it."""

from dataclasses import dataclass


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
class NeededRewrite:
    """A rewrite of compiled code that some scripts ask for, by what they say of an op.

    Attributes:
        name: Name of the rewrite.
        version: Version of the rewrite: it decides, with the script, which program a config becomes.
        why: Purpose, for people.
    """

    name: str
    version: int
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


MASKED_ENDS = NeededRewrite("masked-ends", 1)


@dataclass(frozen=True)
class Rewrites:
    """What happens to a task's op before the script sees it, which no op of the transform dialect can do.

    Attributes:
        panel: Columns of the panels that its constant B is stored in before any call; 0 leaves it as it is. The op then
            reads B as (k, n), rows of a panel at a time.
        blocks: Block sizes of the loops that a task that may go online becomes; `None` leaves it as it is. ``%op`` is
            then the outermost loop; ops inside are matched by ``autotune.part`` (`compiler/passes/online_softmax.py`).
        precision: What its operands are rounded to, one of `core.precision.PRECISIONS`: the op is then one of words,
            which code of ours computes tile by tile (`compiler/passes/narrow.py`). Or the name of another form that its
            weight is stored in (`core/plugs/weight_form.py`). Empty for what they are.
        needed: Rewrites of compiled code that the script asks for.
    """

    panel: int = 0
    blocks: Blocks | None = None
    precision: str = ""
    needed: tuple[NeededRewrite, ...] = ()
