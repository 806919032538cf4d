"""Range analysis of indices and ids: out-of-bounds ones would read or write foreign memory, so they are rejected."""

import inspect
from collections.abc import Sequence

from autotune.core.errors import PayloadError
from payload.dialect.op import IndexRanges
from payload.dialect.ops.block import BlockOp
from payload.dialect.ops.tables import IndexOp, LayerOp, ShiftOp
from payload.dialect.program import OpCall, OpProgram

Ranges = dict[str, tuple[int, int]]  # minimum and maximum, inclusive, of integer values by name


def check_index_ranges(program: OpProgram) -> None:
    """Raise unless every index and id is in bounds for all values the arguments may hold.

    Raises:
        PayloadError: An index or an id may be out of bounds; the message has the op's location and both ranges.
    """
    ranges = {f"%{a.name}": (int(a.low), int(a.high) - 1) for a in program.arguments if a.dtype.startswith("i")}
    check_calls(program.calls, ranges)


def check_calls(calls: Sequence[OpCall], ranges: Ranges) -> None:
    """Check ops in program order; add the ranges of their results to `ranges`."""
    for call in calls:
        names = [operand.name for operand in call.operands]
        if hasattr(call.op, "index_ranges"):
            check_call(call, call.op.index_ranges(*(operand.kind for operand in call.operands)), ranges)
        if isinstance(call.op, IndexOp | LayerOp) and names[0] in ranges:
            ranges[call.results[0].name] = ranges[names[0]]
        if isinstance(call.op, ShiftOp):
            least, most = ranges[names[0]]
            ranges[call.results[0].name] = (least + call.op.by, most + call.op.by)
        if isinstance(call.op, BlockOp) and call.body is not None:
            check_calls(call.body.calls, {**ranges, call.body.arguments[0].name: (0, call.op.layers - 1)})


def check_call(call: OpCall, allowed: IndexRanges, ranges: Ranges) -> None:
    """Check the indices and ids that an op reads.

    Raises:
        PayloadError: An index or an id may be out of bounds.
    """
    names = list(inspect.signature(call.op.infer).parameters)
    for name, (least, most) in allowed.items():
        number = names.index(name)
        if number >= len(call.operands):
            continue
        low, high = ranges[call.operands[number].name]
        if low < least or high > most:
            raise PayloadError(
                f"{call.location}{call.name}: {name} must be from {least} to {most}, it is from {low} to {high}; "
                "see layers of the block, or autotune.low and autotune.high of the argument"
            )
