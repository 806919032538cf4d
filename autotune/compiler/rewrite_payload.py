"""What happens to a module before its script: arguments for weights in panels, loops where a softmax goes online."""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.module import find_function, parse
from autotune.compiler.passes.online_softmax import go_online
from autotune.compiler.passes.panels import PanelWeight, insert_panels
from autotune.core.family import Blocks
from autotune.core.marks import ONLINE
from autotune.core.payload import Payload


def prepare_module(
    module: ir.Module, payload: Payload, script: str | None, panels: Mapping[str, int]
) -> tuple[PanelWeight, ...]:
    """Make a tagged module what its script applies to.

    Args:
        module: Changed in place.
        payload: What it computes.
        script: Says what goes online; `None` for no script.
        panels: Columns of the panels that B is stored in, for every tag whose op reads it so.

    Returns:
        The arguments that the entry function has besides the payload's.

    Raises:
        CompileError: Stage ``transform``; an op is not what its schedule takes it for.
    """
    function = find_function(module, payload.entry)
    if blocks := blocks_of(script or ""):
        go_online(function, blocks)
    roles = [argument.role for argument in payload.arguments]
    return insert_panels(function, roles, panels) if panels else ()


def blocks_of(script: str) -> dict[str, Blocks]:
    """The blocks that a script wants its tasks in."""
    if ONLINE not in script:
        return {}
    attributes = parse(script, "the script").operation.attributes
    found = {}
    for tag, said in ((named.name, named.attr) for named in attributes[ONLINE]):
        values = {named.name: named.attr.value for named in said}
        found[tag] = Blocks(int(values["rows"]), int(values["columns"]), bool(values["skips"]))
    return found
