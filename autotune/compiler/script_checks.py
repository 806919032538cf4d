"""What a user's own script may not ask for: what aborts MLIR, and passes that a bundle could not ask for either."""

from mlir import ir

from autotune.compiler.guard import PASS_OP, PASSES, passes_of
from autotune.compiler.own_module import refuse_at

ABORTS = ("transform.structured.tile_using_for",)  # on a param of any type


def check_op(op: ir.Operation, source: str) -> None:
    """Refuse an op that would abort MLIR, and one that runs a pass that no bundle may ask for.

    Raises:
        ScheduleError: The op does one of these.
    """
    if op.name in ABORTS and any(str(operand.type) == "!transform.any_param" for operand in op.operands):
        raise refuse_at(
            source,
            op,
            f"{op.name} must be given sizes of type !transform.param<i64>, one is a !transform.any_param, which aborts "
            "MLIR; give its knob that type",
        )
    if op.name == PASS_OP:
        name = ir.StringAttr(op.attributes["pass_name"]).value
        if unknown := passes_of(name) - PASSES:
            names = ", ".join(sorted(unknown))
            raise refuse_at(source, op, f"a pass must be one that lowers or simplifies, {names} is not known as such")
