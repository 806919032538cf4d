"""What a user's own script may not ask for: what no bundle of it may hold, and what aborts MLIR."""

from mlir import ir

from autotune.compiler.guard import PASS_OP, open_fault
from autotune.compiler.ir.module import every_op
from autotune.compiler.script.user_module import refuse_at, sets_of

ABORTS = ("transform.structured.tile_using_for",)  # on a param of any type


def check_file(module: ir.Module, source: str) -> None:
    """Refuse ops that no bundle may hold: with choices made, a script has the same ops, or less.

    Raises:
        ScheduleError: There is such an op, or one to which a knob gives the name of a pass.
    """
    for op in every_op(module):
        if (fault := open_fault(op)) is not None:
            raise refuse_at(source, op, f"a schedule {fault}; leave it out")
        if op.name == PASS_OP and "pass_name" in sets_of(op):
            raise refuse_at(source, op, "a pass must be named in the script, a knob gives its name; choose by regions")


def check_op(op: ir.Operation, source: str) -> None:
    """Refuse an op that would abort MLIR.

    Raises:
        ScheduleError: The script holds such an op.
    """
    if op.name in ABORTS and any(str(operand.type) == "!transform.any_param" for operand in op.operands):
        raise refuse_at(
            source,
            op,
            f"{op.name} must be given sizes of type !transform.param<i64>, one is a !transform.any_param, which aborts "
            "MLIR; give its knob that type",
        )
