"""A script of ours in two: what each task's schedule does, and the lowering that all scripts share."""

from mlir import ir

from autotune.compiler.ir.module import copy_module, symbol
from autotune.compiler.passes.empty_handles import ENTRY
from autotune.core.errors import ScheduleError
from autotune.core.scripts.assembly import before_lowering

LOWERING = "transform.bufferization.eliminate_empty_tensors"  # the first op of it


def is_ours(text: str) -> bool:
    """Whether a script lowers as those of this release do, so that its schedules stand alone."""
    try:
        before_lowering(text)
    except ScheduleError:
        return False
    return True


def halves_of(script: ir.Module) -> tuple[ir.Module, ir.Module]:
    """Two scripts that do one after the other what one of ours does."""
    schedules, lowering = copy_module(script), copy_module(script)
    ops = body_of(schedules)
    begin = next(i for i, op in enumerate(ops) if op.operation.name == LOWERING)
    erase(ops[begin:-1])
    erase(body_of(lowering)[:begin])
    return schedules, lowering


def body_of(script: ir.Module) -> list[ir.OpView]:
    """The ops of the sequence that a script begins with."""
    entry = next(op for op in script.body.operations if symbol(op) == ENTRY)
    return list(entry.regions[0].blocks[0].operations)


def erase(ops: list[ir.OpView]) -> None:
    """Erase ops, those that read others first."""
    for op in reversed(ops):
        op.operation.erase()
