"""Split a generated script in two: the schedules of the tasks, and the lowering that all scripts share."""

from mlir import ir

from autotune.compiler.ir.module import copy_module, symbol
from autotune.compiler.passes.empty_handles import ENTRY
from autotune.core.errors import ScheduleError
from autotune.core.scripts.assembly import before_lowering

LOWERING = "transform.bufferization.eliminate_empty_tensors"  # first operation of the shared lowering


def is_ours(text: str) -> bool:
    """Return whether a script ends with the lowering of this release, so that it can be split."""
    try:
        before_lowering(text)
    except ScheduleError:
        return False
    return True


def halves_of(script: ir.Module) -> tuple[ir.Module, ir.Module]:
    """Return two scripts, the schedules and the lowering, that applied in sequence are equivalent to a script."""
    schedules, lowering = copy_module(script), copy_module(script)
    ops = body_of(schedules)
    begin = next(i for i, op in enumerate(ops) if op.operation.name == LOWERING)
    erase(ops[begin:-1])
    erase(body_of(lowering)[:begin])
    return schedules, lowering


def body_of(script: ir.Module) -> list[ir.OpView]:
    """Return the operations of the entry sequence."""
    entry = next(op for op in script.body.operations if symbol(op) == ENTRY)
    return list(entry.regions[0].blocks[0].operations)


def erase(ops: list[ir.OpView]) -> None:
    """Erase operations in reverse order, users before the operations they use."""
    for op in reversed(ops):
        op.operation.erase()
