"""What happens to a task's op before its script, which no op of the transform dialect can do: as attributes say it."""

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.compiler.script.user_module import MAIN, refuse_at
from autotune.core.plugs.rewrites import Blocks, Rewrites
from autotune.core.scripts.marks import ONLINE, PANEL

MOST = 1 << 20  # rows or columns


def read_blocks(attribute: ir.Attribute) -> Blocks:
    """Blocks of a group with an online softmax, from their attribute.

    Raises:
        ValueError: The attribute says something else.
    """
    values = {named.name: named.attr.value for named in attribute} if isinstance(attribute, ir.DictAttr) else {}
    if set(values) != {"rows", "columns", "skips"} or not all(1 <= values[key] < MOST for key in ("rows", "columns")):
        raise ValueError("{rows = 16, columns = 64, skips = false}")
    return Blocks(int(values["rows"]), int(values["columns"]), bool(values["skips"]))


def rewrites_of(entry: ir.Operation, source: str) -> Rewrites:
    """What the entry of a user's script says happens first.

    Raises:
        ScheduleError: An attribute says something else, or the entry takes the whole payload.
    """
    panel, blocks = entry.attributes.get(PANEL, None), entry.attributes.get(ONLINE, None)
    if symbol(entry) == MAIN and not (panel is None and blocks is None):
        raise refuse_at(
            source, entry, f"{PANEL} and {ONLINE} must be on a sequence over one op, @{MAIN} is none; rename it"
        )
    if panel is not None and not (isinstance(panel, ir.IntegerAttr) and 1 <= int(panel) < MOST):
        raise refuse_at(source, entry, f"{PANEL} must be a number of columns, is {panel}; write {PANEL} = 32")
    try:
        found = read_blocks(blocks) if blocks is not None else None
    except (ValueError, TypeError, AttributeError) as error:
        raise refuse_at(
            source, entry, f"{ONLINE} must read {{rows = 16, columns = 64, skips = false}}, is {blocks}; mend it"
        ) from error
    return Rewrites(int(panel) if panel is not None else 0, found)
