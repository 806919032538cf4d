"""Dry run: a user's script applied once before any search, and notes for its author.

A handle that holds nothing is no error in a user's script, as it is none upstream; it is reported once, here.
"""

import re
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.module import context, every_op, parse, run_passes
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import BEFORE_SCRIPT, take_step
from autotune.compiler.passes.empty_handles import HANDLES, neighbours
from autotune.compiler.script.apply import run_script
from autotune.compiler.script.instantiate import write_concrete
from autotune.compiler.script.trace import captured, written_to
from autotune.compiler.script.user_module import MAIN, location_of, sequences_of
from autotune.core.errors import CompileError
from autotune.core.payload import Payload
from autotune.core.scripts.marks import FOREIGN
from autotune.core.scripts.parametric import ChosenScript

COUNTED = "autotune.count"
# The bindings hand remarks to nobody: they are read where MLIR prints them.
REMARK = re.compile(rf'loc\("-":(\d+):(\d+)\): {re.escape(COUNTED)} (\d+) : i64')
MOST_NOTES = 5


@dataclass(frozen=True)
class DryRun:
    """A script to apply once.

    Attributes:
        payload: Payload that it is applied to.
        text: The module to start from.
        script: Script with its default config.
        panels: Tags whose op reads its weight from panels, with their columns.
    """

    payload: Payload
    text: str
    script: ChosenScript
    panels: tuple[tuple[str, int], ...] = ()


def dry_run(wanted: DryRun) -> tuple[str, ...]:
    """Apply a script without the lowering that follows it, and count what its handles hold. In the isolated process.

    Returns:
        Notes for its author, a sentence each.
    """
    source, name = wanted.script.source, wanted.payload.name
    with context():
        module = parse(wanted.text, name)
        try:
            own = write_concrete(replace(wanted.script, lowers=False))
            prepare(module, own, wanted)
            before = str(module)
            counted = count_handles(own)
            with captured() as file:
                run_script(module, own, wanted.script.text, source)
                remarks = written_to(file)
        except CompileError as error:
            return (f"the config that the search begins with fails: {plain_error(wanted) or error}",)
        least: dict[tuple[int, int], int] = {}
        for line, column, count in REMARK.findall(remarks):
            least[int(line), int(column)] = max(int(count), least.get((int(line), int(column)), 0))
        empty = [where for where, count in least.items() if count == 0 and where in counted]
        notes = [f"{source}:{w[0]}:{w[1]}: {counted[w]} finds nothing in {name}" for w in sorted(empty)[:MOST_NOTES]]
        if str(module) == before:
            notes.append(f"{source} changes nothing in {name}")
        elif FOREIGN in sequences_of(own.operation)[MAIN].attributes and (left := left_on_tensors(module)):
            notes.append(
                f"{source} consumes its payload, so that it must bufferize all of it; {left} is left on tensors"
            )
        return tuple(notes)


def prepare(module: ir.Module, own: ir.Module, wanted: DryRun) -> None:
    """What happens to a module before its script, in place.

    Raises:
        CompileError: An op is not what the script takes it for.
    """
    payload = wanted.payload
    roles = tuple(argument.role for argument in payload.arguments)
    unit = Unit(module, payload.entry, roles, script=own, panels=dict(wanted.panels))
    for name in BEFORE_SCRIPT:
        take_step(unit, name)


def plain_error(wanted: DryRun) -> str:
    """What a script fails with that is applied without remarks, which the error of one with remarks is full of."""
    module = parse(wanted.text, wanted.payload.name)
    run_passes(module, "builtin.module(strip-debuginfo)")
    try:
        own = write_concrete(replace(wanted.script, lowers=False))
        prepare(module, own, wanted)
        run_script(module, own, wanted.script.text, wanted.script.source)
    except CompileError as error:
        return str(error)
    return ""


def count_handles(own: ir.Module) -> dict[tuple[int, int], str]:
    """Put remarks behind every op of a user's sequences that gives handles: how many ops each holds.

    Returns:
        Names of those ops, by line and column.
    """
    counted: dict[tuple[int, int], str] = {}
    number = ir.Type.parse("!transform.param<i64>")
    for sequence in sequences_of(own.operation).values():
        if FOREIGN not in sequence.attributes:
            continue
        for op, behind in list(neighbours(sequence)):
            for result in op.results:
                if str(result.type).startswith(HANDLES) and any(True for _ in result.uses):
                    counted[location_of(op)] = op.name
                    with ir.InsertionPoint(behind), op.location:
                        held = ir.Operation.create("transform.num_associations", [number], [result])
                        message = {"message": ir.StringAttr.get(COUNTED)}
                        remark = "transform.debug.emit_param_as_remark"
                        ir.Operation.create(remark, operands=[held.result], attributes=message)
    return counted


def left_on_tensors(module: ir.Module) -> str:
    """Names of the structured ops that a module still has on tensors; empty if there are none."""
    ops = [op for op in every_op(module) if op.name.startswith("linalg.")]
    return ", ".join(
        sorted({op.name for op in ops if any(isinstance(r.type, ir.RankedTensorType) for r in op.results)})
    )
