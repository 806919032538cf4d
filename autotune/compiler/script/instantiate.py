"""The writer of concrete scripts: a value for every knob of a user's script, set in the parsed module.

Locations stay those of the user's file, so that a failure is reported with its line there. What is left holds neither
``tune`` nor ``smt`` ops: knobs are constants, alternatives the region that is taken, constraints are gone.
"""

from collections.abc import Mapping
from textwrap import indent

from mlir import ir

from autotune.compiler.ir.module import context, describe, every_op, parse, run_passes, symbol
from autotune.compiler.ir.packs import LOWER_PACKS
from autotune.compiler.script.user_module import (
    MAIN,
    SEQUENCE,
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

OWN_MAIN = "own_main"  # the user's entry, where ours goes around it
SAYS_ONLY = ("transform.print", "transform.debug.emit_remark_at", "transform.debug.emit_param_as_remark")


def write_concrete(chosen: ChosenScript) -> ir.Module:
    """The script with everything chosen, in the current context.

    A script of the whole payload that leaves it on tensors is followed by the lowering that all schedules share; one
    that bufferizes stays alone. A script of one op is applied to every op of its tag.

    Raises:
        ScheduleError: The file is no such script.
        CompileError: Stage ``transform``; a value is none that its op takes.
    """
    own, entry = settled_module(chosen)
    finish(own, entry, chosen)
    return own


def settled_module(chosen: ChosenScript) -> tuple[ir.Module, ir.Operation]:
    """The user's module with everything chosen, and its entry; raises as `write_concrete`."""
    own = open_module(chosen.text, chosen.source)
    entry = find_entry(own, chosen.source)
    numbered = [op for op in every_op(own) if op.name == "transform.smt.constrain_params"]
    results = dict(chosen.results)
    attributes = {name: ir.Attribute.parse(spelled) for name, spelled in chosen.attributes}
    for number, constraint in enumerate(numbered):
        word = ir.IntegerType.get_signless(64)
        given = results.get(number)
        values = [ir.IntegerAttr.get(word, value) for value in given] if given is not None else []
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
    """The concrete script as text. In the isolated process."""
    with context():
        return str(write_concrete(chosen))


def concrete_sequences(named: tuple[ChosenScript, str]) -> tuple[str, str]:
    """The concrete sequences of a script of one op, for a script that holds more. In the isolated process.

    Args:
        named: The script, and what its names are to begin with.

    Returns:
        The sequences, and the ops that give the entry the handle ``%op``.
    """
    chosen, prefix = named
    with context():
        own, entry = settled_module(chosen)
        for op in every_op(own):
            rename_symbols(op, prefix)
        kind = str(entry.regions[0].blocks[0].arguments[0].type)
        text = "".join(f"{op}\n" for op in own.body.operations)
        return text, include("%op", str(symbol(entry)), kind)


def rename_symbols(op: ir.Operation, prefix: str) -> None:
    """Put something in front of the name that an op defines, and of those it refers to."""
    for name, value in list(op.attributes.items()):
        if name == "sym_name":
            op.attributes[name] = ir.StringAttr.get(prefix + value.value)
        elif isinstance(value, ir.FlatSymbolRefAttr):
            op.attributes[name] = ir.FlatSymbolRefAttr.get(prefix + value.value)
        elif isinstance(value, ir.ArrayAttr) and len(value) and isinstance(value[0], ir.FlatSymbolRefAttr):
            op.attributes[name] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(prefix + one.value) for one in value])


def settle(root: ir.Operation, attributes: Mapping[str, ir.Attribute]) -> None:
    """Set every choice below an op, in place; what is in regions not taken goes with them."""
    for block in (block for region in root.regions for block in region.blocks):
        waiting = [op.operation for op in block.operations]
        while waiting:
            op = waiting.pop(0)
            if op.name in SAYS_ONLY:
                op.erase()
            elif op.name == "transform.tune.knob":
                replace_by_constants(op, [attributes[str(op.attributes["name"].value)]])
            elif op.name == "transform.tune.alternatives" and not is_given_its_region(op):
                waiting = take_region(op, attributes) + waiting
            else:
                for name, knob in sets_of(op).items():
                    op.attributes[name] = attributes[knob]
                if SETS in op.attributes:
                    del op.attributes[SETS]
                settle(op, attributes)


def replace_by_constants(op: ir.Operation, values: list[ir.Attribute]) -> None:
    """Replace an op that gives params by constant params; those that nobody reads are left out."""
    with ir.InsertionPoint(op):
        for result, value in zip(op.results, values, strict=False):
            if any(True for _ in result.uses):
                kinds = {"results": [result.type], "attributes": {"value": value}, "loc": op.location}
                result.replace_all_uses_with(ir.Operation.create("transform.param.constant", **kinds).results[0])
    op.erase()


def is_given_its_region(op: ir.Operation) -> bool:
    """Tell whether an alternatives op is in a sequence that is given the choice: each include may take another."""
    return bool(len(op.operands)) and isinstance(op.operands[0].owner, ir.Block)


def take_region(op: ir.Operation, attributes: Mapping[str, ir.Attribute]) -> list[ir.Operation]:
    """Replace an alternatives op by the ops of the region that is taken; gives them."""
    if len(op.operands):
        chosen = op.operands[0].owner.attributes["value"]  # a constant by now
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
    """Erase the sequences that the entry does not lead to."""
    sequences = sequences_of(own.operation)
    reached, waiting = set[str](), [entry]
    while waiting:
        name = waiting.pop()
        if name in sequences and name not in reached:
            reached.add(name)
            waiting += symbols_used(sequences[name])
    for op in list(own.body.operations):
        if op.operation.name == SEQUENCE and symbol(op) not in reached:
            op.operation.erase()


def finish(own: ir.Module, entry: ir.Operation, chosen: ChosenScript) -> None:
    """Put our entry around the user's, unless theirs does all there is to do."""
    if not chosen.tag and consumes_its_payload(own, entry):
        return
    if chosen.tag and ONLINE in entry.attributes:
        own.operation.attributes[ONLINE] = ir.DictAttr.get({chosen.tag: entry.attributes[ONLINE]})
    name = str(symbol(entry))
    if name == MAIN:
        name = free_name(own)
        entry.attributes["sym_name"] = ir.StringAttr.get(name)
    kind = str(entry.regions[0].blocks[0].arguments[0].type)
    ours = parse(main_of(name, kind, chosen), "the lowering of all schedules")
    run_passes(ours, "builtin.module(strip-debuginfo)")  # its lines are none of the user's
    end = ir.InsertionPoint(own.body)
    for op in ours.body.operations:
        if symbol(op) == MAIN:
            op.operation.clone(end)


def free_name(own: ir.Module) -> str:
    """A name for the user's entry that no other sequence has."""
    taken, name = sequences_of(own.operation), OWN_MAIN
    while name in taken:
        name += "_"
    return name


def main_of(name: str, kind: str, chosen: ChosenScript) -> str:
    """Our entry: the user's sequence on the module, or on every op of a tag, then the lowering of all schedules."""
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
    """The ops that give a sequence a handle, of the type that it takes."""
    if kind == "!transform.any_op":
        return f"transform.include @{name} failures(propagate) ({handle}) : (!transform.any_op) -> ()\n"
    return (
        f"%typed = transform.cast {handle} : !transform.any_op to {kind}\n"
        f"transform.include @{name} failures(propagate) (%typed) : ({kind}) -> ()\n"
    )
