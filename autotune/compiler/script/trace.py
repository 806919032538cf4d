"""Locate the transform operation that failed, if MLIR only reports the payload operation.

A copy of the script with a numbered remark before every operation is run again; the last remark that is printed
identifies the operation.
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
# Remarks are parsed from their printed form: the bindings only expose the text of a diagnostic.
STARTED_OP = re.compile(rf"{re.escape(STARTED)} (\d+) : i64")
REMARK = "transform.debug.emit_param_as_remark"
ENTERED = ("transform.foreach", "transform.alternatives", "transform.tune.alternatives", "transform.sequence")
MATCHERS = ("transform.foreach_match", "transform.collect_matching")


def failing_op(payload: ir.Module, script: ir.Module, entry: str) -> str | None:
    """Return the printed location of the transform operation that fails on a payload; `None` if it is unknown.

    Args:
        payload: Payload before the script was applied; modified in place.
        script: Script; not modified.
        entry: Name of the entry sequence.
    """
    traced = copy_module(script)
    ops = numbered(traced.operation)
    begin = next(op for op in traced.body.operations if symbol(op) == entry)
    started: list[str] = []
    with captured():
        try:
            interpreter.apply_named_sequence(payload.operation, begin, traced.operation)
        except ValueError as error:  # its text contains all remarks
            started = STARTED_OP.findall(str(error))
    return str(ops[int(started[-1])].location) if started else None


def numbered(script: ir.Operation) -> list[ir.Operation]:
    """Insert a numbered remark before every interpreted operation of a script, in place; return those operations."""
    operations: list[ir.Operation] = []
    sequences = [op.operation for op in script.regions[0].blocks[0].operations]
    matchers = {str(value) for op in below(sequences) if op.name in MATCHERS for value in op.attributes.values()}
    for op in list(below([each for each in sequences if not any(f"@{symbol(each)}" in m for m in matchers)])):
        if op.name.endswith((".yield", ".named_sequence")):
            continue
        i64, param_type = ir.IntegerType.get_signless(64), ir.Type.parse("!transform.param<i64>")
        with ir.InsertionPoint(op), ir.Location.unknown():
            attributes = {"value": ir.IntegerAttr.get(i64, len(operations))}
            param = ir.Operation.create("transform.param.constant", [param_type], attributes=attributes)
            ir.Operation.create(REMARK, operands=[param.result], attributes={"message": ir.StringAttr.get(STARTED)})
        operations.append(op)
    return operations


def below(ops: Sequence[ir.Operation]) -> Iterator[ir.Operation]:
    """Yield operations and, recursively, those in nested regions that the interpreter executes in sequence."""
    for op in ops:
        yield op
        if op.name in ENTERED or op.name == "transform.named_sequence":
            for block in (block for region in op.regions for block in region.blocks):
                yield from below([each.operation for each in block.operations])


@contextmanager
def captured() -> Iterator[IO[bytes]]:
    """Redirect file descriptor 2 (stderr), where the bindings print remarks, to a temporary file and yield the file."""
    with scratch_file() as path, path.open("w+b") as file:
        saved_stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)


def written_to(file: IO[bytes]) -> str:
    """Return the contents of a file."""
    file.seek(0)
    return file.read().decode(errors="replace")
