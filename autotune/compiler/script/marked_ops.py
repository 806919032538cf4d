"""Rewrites that the attributes of a user script request before it is applied; no transform operation expresses them."""

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.compiler.ir.scripts import MAIN
from autotune.compiler.script.user_module import refuse_at
from autotune.core.plugs.rewrites import Blocks, Rewrites
from autotune.core.scripts.marks import ONLINE, PANEL

MOST = 1 << 20  # exclusive upper bound of rows and columns


def read_blocks(attribute: ir.Attribute) -> Blocks:
    """Parse the attribute that sets the block sizes of an online softmax.

    Raises:
        ValueError: The attribute has other keys, or a size is out of range.
    """
    values = {named.name: named.attr.value for named in attribute} if isinstance(attribute, ir.DictAttr) else {}
    if set(values) != {"rows", "columns", "skips"} or not all(1 <= values[key] < MOST for key in ("rows", "columns")):
        raise ValueError("{rows = 16, columns = 64, skips = false}")
    return Blocks(int(values["rows"]), int(values["columns"]), bool(values["skips"]))


def rewrites_of(entry: ir.Operation, source: str) -> Rewrites:
    """Return the rewrites that the entry of a user script requests by its attributes.

    Raises:
        ScheduleError: An attribute is malformed, or the entry is applied to the whole payload.
    """
    panel, blocks = entry.attributes.get(PANEL, None), entry.attributes.get(ONLINE, None)
    if symbol(entry) == MAIN and not (panel is None and blocks is None):
        raise refuse_at(
            source, entry, f"{PANEL} and {ONLINE} must be on a sequence over one op, @{MAIN} is none; rename it"
        )
    if panel is not None and not (isinstance(panel, ir.IntegerAttr) and 1 <= int(panel) < MOST):
        raise refuse_at(source, entry, f"{PANEL} must be a number of columns, is {panel}; write {PANEL} = 32")
    try:
        online_blocks = read_blocks(blocks) if blocks is not None else None
    except (ValueError, TypeError, AttributeError) as error:
        raise refuse_at(
            source, entry, f"{ONLINE} must read {{rows = 16, columns = 64, skips = false}}, is {blocks}; mend it"
        ) from error
    return Rewrites(int(panel) if panel is not None else 0, online_blocks)
