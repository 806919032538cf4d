"""Instantiate parametric scripts: set a value for every knob of a user script in the parsed module.

Locations remain those of the user file, so that a failure is reported with its line. The instantiated script contains
no ``tune`` or ``smt`` operations: knobs become constants, alternatives are replaced by the selected region, constraints
are erased.
"""

from collections.abc import Mapping
from textwrap import indent

from mlir import ir

from autotune.compiler.ir.module import context, describe, every_op, parse, run_passes, symbol
from autotune.compiler.ir.packs import LOWER_PACKS
from autotune.compiler.ir.scripts import MAIN, SEQUENCE
from autotune.compiler.script.user_module import (
    consumes_its_payload,
    find_entry,
    open_module,
    sequences_of,
    sets_of,
    symbols_used,
)
from autotune.core.errors import CompileError
from autotune.core.scripts.assembly import DESTINATIONS, FINISH, LOWERING
from autotune.core.scripts.marks import FOREIGN, KNOBS, ONLINE, SETS, TAG
from autotune.core.scripts.parametric import ChosenScript

OWN_MAIN = "own_main"  # new name of the user's @__transform_main if it is wrapped in a generated entry
SAYS_ONLY = ("transform.print", "transform.debug.emit_remark_at", "transform.debug.emit_param_as_remark")


def write_concrete(chosen: ChosenScript) -> ir.Module:
    """Instantiate a script in the current context.

    A script for the whole payload that leaves it on tensors is followed by the shared lowering; one that bufferizes it
    is used as is. A script for one operation is applied to every operation with the tag of the task.

    Raises:
        ScheduleError: The file is not a valid script.
        CompileError: Stage ``transform``; an operation does not verify with the selected value.
    """
    own, entry = settled_module(chosen)
    finish(own, entry, chosen)
    return own


def settled_module(chosen: ChosenScript) -> tuple[ir.Module, ir.Operation]:
    """Return the user module with all knobs set, and its entry; raises as `write_concrete`."""
    own = open_module(chosen.text, chosen.source)
    entry = find_entry(own, chosen.source)
    constraint_ops = [op for op in every_op(own) if op.name == "transform.smt.constrain_params"]
    results = dict(chosen.results)
    attributes = {name: ir.Attribute.parse(spelled) for name, spelled in chosen.attributes}
    for number, constraint in enumerate(constraint_ops):
        i64 = ir.IntegerType.get_signless(64)
        constants = results.get(number)
        values = [ir.IntegerAttr.get(i64, value) for value in constants] if constants is not None else []
        replace_by_constants(constraint, values)
    settle(own.operation, attributes)
    drop_unused(own, str(symbol(entry)))
    for sequence in sequences_of(own.operation).values():
        sequence.attributes[FOREIGN] = ir.UnitAttr.get()
    entry.attributes[KNOBS] = ir.DictAttr.get(attributes)
    try:
        own.operation.verify()
    except ir.MLIRError as error:
        raise CompileError("transform", f"{chosen.source}{describe(error)}") from error
    return own, entry


def concrete_text(chosen: ChosenScript) -> str:
    """Return the instantiated script as text. Runs in the isolated process."""
    with context():
        return str(write_concrete(chosen))


def concrete_sequences(named: tuple[ChosenScript, str]) -> tuple[str, str]:
    """Instantiate the sequences of a script for one operation, to embed them in another script.

    Runs in the isolated process.

    Args:
        named: Script, and the prefix of its symbol names.

    Returns:
        Text of the sequences, and of the operations that include the entry on the handle ``%op``.
    """
    chosen, prefix = named
    with context():
        own, entry = settled_module(chosen)
        for op in every_op(own):
            rename_symbols(op, prefix)
        handle_type = str(entry.regions[0].blocks[0].arguments[0].type)
        text = "".join(f"{op}\n" for op in own.body.operations)
        return text, include("%op", str(symbol(entry)), handle_type)


def rename_symbols(op: ir.Operation, prefix: str) -> None:
    """Add a prefix to the symbol that an operation defines and to those it refers to."""
    for name, value in list(op.attributes.items()):
        if name == "sym_name":
            op.attributes[name] = ir.StringAttr.get(prefix + value.value)
        elif isinstance(value, ir.FlatSymbolRefAttr):
            op.attributes[name] = ir.FlatSymbolRefAttr.get(prefix + value.value)
        elif isinstance(value, ir.ArrayAttr) and len(value) and isinstance(value[0], ir.FlatSymbolRefAttr):
            op.attributes[name] = ir.ArrayAttr.get(
                [ir.FlatSymbolRefAttr.get(prefix + reference.value) for reference in value]
            )


def settle(root: ir.Operation, attributes: Mapping[str, ir.Attribute]) -> None:
    """Set every knob and select every alternative nested in an operation, in place; regions not selected are erased."""
    for block in (block for region in root.regions for block in region.blocks):
        worklist = [op.operation for op in block.operations]
        while worklist:
            op = worklist.pop(0)
            if op.name in SAYS_ONLY:
                op.erase()
            elif op.name == "transform.tune.knob":
                replace_by_constants(op, [attributes[str(op.attributes["name"].value)]])
            elif op.name == "transform.tune.alternatives" and not is_selected_by_argument(op):
                worklist = take_region(op, attributes) + worklist
            else:
                for name, knob in sets_of(op).items():
                    op.attributes[name] = attributes[knob]
                if SETS in op.attributes:
                    del op.attributes[SETS]
                settle(op, attributes)


def replace_by_constants(op: ir.Operation, values: list[ir.Attribute]) -> None:
    """Replace the results of an operation by constant params, except for unused results, and erase it."""
    with ir.InsertionPoint(op):
        for result, value in zip(op.results, values, strict=False):
            if any(True for _ in result.uses):
                arguments = {"results": [result.type], "attributes": {"value": value}, "loc": op.location}
                result.replace_all_uses_with(ir.Operation.create("transform.param.constant", **arguments).results[0])
    op.erase()


def is_selected_by_argument(op: ir.Operation) -> bool:
    """Return whether an alternatives operation is selected by a block argument, which may differ with each include."""
    return bool(len(op.operands)) and isinstance(op.operands[0].owner, ir.Block)


def take_region(op: ir.Operation, attributes: Mapping[str, ir.Attribute]) -> list[ir.Operation]:
    """Inline the selected region of an alternatives operation in its place; return the inlined operations."""
    if len(op.operands):
        chosen = op.operands[0].owner.attributes["value"]  # knobs are already replaced by constants
    else:
        chosen = attributes[str(op.attributes["name"].value)]
    block = op.regions[int(ir.IntegerAttr(chosen))].blocks[0]
    *inner, end = [each.operation for each in block.operations]
    for each in inner:
        each.move_before(op)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
    return inner


def drop_unused(own: ir.Module, entry: str) -> None:
    """Erase the sequences that are not reachable from the entry."""
    sequences = sequences_of(own.operation)
    reached, worklist = set[str](), [entry]
    while worklist:
        name = worklist.pop()
        if name in sequences and name not in reached:
            reached.add(name)
            worklist += symbols_used(sequences[name])
    for op in list(own.body.operations):
        if op.operation.name == SEQUENCE and symbol(op) not in reached:
            op.operation.erase()


def finish(own: ir.Module, entry: ir.Operation, chosen: ChosenScript) -> None:
    """Wrap the user's entry in a generated one, unless it consumes the whole payload itself."""
    if not chosen.tag and consumes_its_payload(own, entry):
        return
    if chosen.tag and ONLINE in entry.attributes:
        own.operation.attributes[ONLINE] = ir.DictAttr.get({chosen.tag: entry.attributes[ONLINE]})
    name = str(symbol(entry))
    if name == MAIN:
        name = free_name(own)
        entry.attributes["sym_name"] = ir.StringAttr.get(name)
    handle_type = str(entry.regions[0].blocks[0].arguments[0].type)
    ours = parse(main_of(name, handle_type, chosen), "the lowering of all schedules")
    run_passes(ours, "builtin.module(strip-debuginfo)")  # its locations are not lines of the user file
    end = ir.InsertionPoint(own.body)
    for op in ours.body.operations:
        if symbol(op) == MAIN:
            op.operation.clone(end)


def free_name(own: ir.Module) -> str:
    """Return an unused name for the user's entry."""
    used, name = sequences_of(own.operation), OWN_MAIN
    while name in used:
        name += "_"
    return name


def main_of(name: str, kind: str, chosen: ChosenScript) -> str:
    """Return the generated entry: the user's sequence on the module or on every tagged operation, then the lowering."""
    begin = include("%module", name, kind)
    if chosen.tag:
        begin = f"""\
%ops = transform.structured.match attributes{{{TAG} = "{chosen.tag}"}} in %module
  : (!transform.any_op) -> !transform.any_op
transform.foreach %ops : !transform.any_op {{
^bb0(%op: !transform.any_op):
{indent(include("%op", name, kind), "  ")}}}
"""
    body = begin + (LOWER_PACKS + DESTINATIONS + LOWERING if chosen.lowers else "") + FINISH
    return f"""\
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence private @{name}({kind} {{transform.{"consumed" if chosen.tag else "readonly"}}})
  transform.named_sequence @{MAIN}(%module: !transform.any_op {{transform.consumed}}) {{
{indent(body, "    ")}  }}
}}
"""


def include(handle: str, name: str, kind: str) -> str:
    """Return the text that includes a sequence on a handle, with a cast to the handle type it takes."""
    if kind == "!transform.any_op":
        return f"transform.include @{name} failures(propagate) ({handle}) : (!transform.any_op) -> ()\n"
    return (
        f"%typed = transform.cast {handle} : !transform.any_op to {kind}\n"
        f"transform.include @{name} failures(propagate) (%typed) : ({kind}) -> ()\n"
    )
