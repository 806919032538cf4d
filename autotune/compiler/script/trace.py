"""The op of a script that failed, where MLIR only says which op of the payload it failed on: the script is run again.

Before every op of the copy that is run stands a remark with its number; the last one that is printed is the op's.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.module import copy_module, symbol
from autotune.core.host.scratch import scratch_file

STARTED = "autotune.started"
# As remarks are printed: the bindings give the text of a diagnostic alone.
STARTED_OP = re.compile(rf"{re.escape(STARTED)} (\d+) : i64")
REMARK = "transform.debug.emit_param_as_remark"
ENTERED = ("transform.foreach", "transform.alternatives", "transform.tune.alternatives", "transform.sequence")
MATCHERS = ("transform.foreach_match", "transform.collect_matching")


def failing_op(payload: ir.Module, script: ir.Module, entry: str) -> str | None:
    """Location of the op of a script that fails on a payload, as MLIR spells it; `None` if that cannot be told.

    Args:
        payload: The payload as it was before the script; it changes.
        script: The script; it stays as it is.
        entry: Name of the sequence that it begins with.
    """
    traced = copy_module(script)
    ops = numbered(traced.operation)
    begin = next(op for op in traced.body.operations if symbol(op) == entry)
    started: list[str] = []
    with captured():
        try:
            interpreter.apply_named_sequence(payload.operation, begin, traced.operation)
        except ValueError as error:  # which has all remarks
            started = STARTED_OP.findall(str(error))
    return str(ops[int(started[-1])].location) if started else None


def numbered(script: ir.Operation) -> list[ir.Operation]:
    """Put a remark before every op of a script that is run, in place; gives the ops."""
    found: list[ir.Operation] = []
    sequences = [op.operation for op in script.regions[0].blocks[0].operations]
    matchers = {str(value) for op in below(sequences) if op.name in MATCHERS for value in op.attributes.values()}
    for op in list(below([each for each in sequences if not any(f"@{symbol(each)}" in m for m in matchers)])):
        if op.name.endswith((".yield", ".named_sequence")):
            continue
        word, number = ir.IntegerType.get_signless(64), ir.Type.parse("!transform.param<i64>")
        with ir.InsertionPoint(op), ir.Location.unknown():
            attributes = {"value": ir.IntegerAttr.get(word, len(found))}
            param = ir.Operation.create("transform.param.constant", [number], attributes=attributes)
            ir.Operation.create(REMARK, operands=[param.result], attributes={"message": ir.StringAttr.get(STARTED)})
        found.append(op)
    return found


def below(ops: Sequence[ir.Operation]) -> Iterator[ir.Operation]:
    """Ops and those inside that the interpreter runs one after the other."""
    for op in ops:
        yield op
        if op.name in ENTERED or op.name == "transform.named_sequence":
            for block in (block for region in op.regions for block in region.blocks):
                yield from below([each.operation for each in block.operations])


@contextmanager
def captured() -> Iterator[IO[bytes]]:
    """A file that takes what is written to stderr meanwhile: the bindings print remarks there."""
    with scratch_file() as path, path.open("w+b") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def written_to(file: IO[bytes]) -> str:
    """What a file holds so far."""
    file.seek(0)
    return file.read().decode(errors="replace")
