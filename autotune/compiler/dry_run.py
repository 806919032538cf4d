"""Dry run: apply a user script once before the search and collect notes about it.

As in upstream MLIR, an empty handle in a user script is not an error; it is reported once, here.
"""

import re
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.module import context, every_op, parse, run_passes
from autotune.compiler.ir.scripts import MAIN
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import BEFORE_SCRIPT, take_step
from autotune.compiler.passes.empty_handles import HANDLES, neighbours
from autotune.compiler.script.apply import run_script
from autotune.compiler.script.instantiate import write_concrete
from autotune.compiler.script.trace import captured, written_to
from autotune.compiler.script.user_module import location_of, sequences_of
from autotune.core.errors import CompileError
from autotune.core.payload import Payload
from autotune.core.scripts.marks import FOREIGN
from autotune.core.scripts.parametric import ChosenScript

COUNTED = "autotune.count"
# The Python bindings do not deliver remarks to a handler, so they are parsed from what MLIR prints to stderr.
REMARK = re.compile(rf'loc\("-":(\d+):(\d+)\): {re.escape(COUNTED)} (\d+) : i64')
MOST_NOTES = 5


@dataclass(frozen=True)
class DryRun:
    """Input of a dry run.

    Attributes:
        payload: Payload that the script is applied to.
        text: Module before the script, as MLIR text.
        script: Script instantiated with its default config.
        panels: Tags of operations that read their weight from panels, each with the columns of a panel.
    """

    payload: Payload
    text: str
    script: ChosenScript
    panels: tuple[tuple[str, int], ...] = ()


def dry_run(wanted: DryRun) -> tuple[str, ...]:
    """Apply a script without the lowering that follows it, and count the operations its handles are associated with.

    Runs in the isolated process.

    Returns:
        Notes for the user, one sentence each.
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
    """Apply the rewrites that precede the script to a module, in place.

    Raises:
        CompileError: An operation does not have the form that the script expects.
    """
    payload = wanted.payload
    argument_roles = tuple(argument.role for argument in payload.arguments)
    unit = Unit(module, payload.entry, argument_roles, script=own, panels=dict(wanted.panels))
    for name in BEFORE_SCRIPT:
        take_step(unit, name)


def plain_error(wanted: DryRun) -> str:
    """Return the error of the script applied without remarks, which would clutter the message; empty if it succeeds."""
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
    """Insert remarks that print the size of every handle after the operation of a user sequence that produces it.

    Returns:
        Names of the producing operations, by line and column.
    """
    counted: dict[tuple[int, int], str] = {}
    param_type = ir.Type.parse("!transform.param<i64>")
    for sequence in sequences_of(own.operation).values():
        if FOREIGN not in sequence.attributes:
            continue
        for op, behind in list(neighbours(sequence)):
            for result in op.results:
                if str(result.type).startswith(HANDLES) and any(True for _ in result.uses):
                    counted[location_of(op)] = op.name
                    with ir.InsertionPoint(behind), op.location:
                        count = ir.Operation.create("transform.num_associations", [param_type], [result])
                        message = {"message": ir.StringAttr.get(COUNTED)}
                        remark = "transform.debug.emit_param_as_remark"
                        ir.Operation.create(remark, operands=[count.result], attributes=message)
    return counted


def left_on_tensors(module: ir.Module) -> str:
    """Return the names of the structured operations that still have tensor results, comma-separated; empty if none."""
    ops = [op for op in every_op(module) if op.name.startswith("linalg.")]
    return ", ".join(
        sorted({op.name for op in ops if any(isinstance(r.type, ir.RankedTensorType) for r in op.results)})
    )
