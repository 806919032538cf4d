"""A user's own schedule file: the module of its transform ops, with the locations of the file, and its entry.

The file may also hold the payload, as upstream's examples do; of that nothing is taken. Everything here is for text of
untrusted: it runs in the isolated process.
"""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.limits import text_fault
from autotune.compiler.ir.module import describe, every_op, line_and_column, parse, symbol
from autotune.core.errors import CompileError, ScheduleError
from autotune.core.scripts.marks import SETS

MAIN = "__transform_main"
SEQUENCE = "transform.named_sequence"
HANDLES = ("!transform.any_op", "!transform.op<")
UNNAMED = "transform.sequence"
PROPAGATE = 1  # of its modes of failure
SCHEDULES = "transform.with_named_sequence"  # the attribute of a module that holds named sequences


def location_of(op: ir.Operation) -> tuple[int, int]:
    """Line and column of an op in the text it was parsed from."""
    return line_and_column(op.location) or (1, 1)


def refuse_at(source: str, op: ir.Operation, sentence: str) -> ScheduleError:
    """The error that says what is wrong with an op of a user's file."""
    line, column = location_of(op)
    return ScheduleError(f"{source}:{line}:{column}: {sentence}")


def open_module(text: str, source: str) -> ir.Module:
    """The transform ops of a file as a module of their own, in the current context; locations are those of the file.

    Args:
        text: The file.
        source: Name of the file.

    Raises:
        ScheduleError: The file does not parse, or has no named sequence, or several modules have an entry.
    """
    return transform_ops(parse_file(text, source), source)


def parse_file(text: str, source: str) -> ir.Module:
    """A file as a module, in the current context; raises as `open_module`."""
    if (fault := text_fault(text)) is not None:
        raise ScheduleError(f"{source} {fault}; write it flatter")
    try:
        return parse(text, source)
    except CompileError as error:
        raise ScheduleError(str(error)) from error


def transform_ops(module: ir.Module, source: str) -> ir.Module:
    """The transform ops of a file as a module of their own; raises as `open_module`."""
    holder = find_holder(module, source)
    own = ir.Module.create()
    own.operation.attributes[SCHEDULES] = ir.UnitAttr.get()
    end = ir.InsertionPoint(own.body)
    for op in holder.regions[0].blocks[0].operations:
        if op.operation.name == UNNAMED:
            name_entry(op.operation.clone(end), source)
        elif op.operation.name.startswith("transform."):
            op.operation.clone(end)
    return own


def name_entry(sequence: ir.Operation, source: str) -> None:
    """Make a sequence without a name, as upstream's examples have it, the entry: one with a name of the same ops.

    Raises:
        ScheduleError: The sequence goes on where an op fails, or takes other handles besides.
    """
    block = sequence.regions[0].blocks[0]
    if int(ir.IntegerAttr(sequence.attributes["failure_propagation_mode"])) != PROPAGATE:
        raise refuse_at(source, sequence, "a schedule must fail where an op does; write failures(propagate)")
    kinds = [argument.type for argument in block.arguments]
    consumed = ir.DictAttr.get({"transform.consumed": ir.UnitAttr.get()})
    attributes = {
        "sym_name": ir.StringAttr.get(MAIN),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
        "arg_attrs": ir.ArrayAttr.get([consumed] * len(kinds)),
    }
    with ir.InsertionPoint(sequence), sequence.location:
        entry = ir.Operation.create(SEQUENCE, regions=1, attributes=attributes)
    block.append_to(entry.regions[0])
    sequence.erase()


def find_holder(module: ir.Module, source: str) -> ir.Operation:
    """The module with the entry; without an entry by upstream's name, the only one with named sequences.

    Raises:
        ScheduleError: There is none, or there are several.
    """
    holders = [op for op in modules_in(module.operation) if sequences_of(op)]
    if not holders:
        raise ScheduleError(
            f"{source} must hold a transform.named_sequence @{MAIN} over the payload, or one over a task's op; "
            "it holds none; add one"
        )
    with_entry = [op for op in holders if MAIN in sequences_of(op)] or holders
    if len(with_entry) > 1:
        second = sequences_of(with_entry[1])
        raise refuse_at(
            source, next(iter(second.values())), "a schedule must have one entry, this is in a second module; drop one"
        )
    return with_entry[0]


def modules_in(op: ir.Operation) -> list[ir.Operation]:
    """A module and the modules inside it, in the order of the text."""
    inner = [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == "builtin.module"]
    return [op, *(found for each in inner for found in modules_in(each))]


def sequences_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """The sequences of a module that have a body, by name; one without a name is the entry."""
    ops = [op.operation for op in module.regions[0].blocks[0].operations if op.operation.name in (SEQUENCE, UNNAMED)]
    return {str(symbol(op) or MAIN): op for op in ops if len(op.regions[0].blocks)}


def find_entry(own: ir.Module, source: str) -> ir.Operation:
    """The sequence that a schedule begins with.

    That is ``@__transform_main``, which is given the payload; or the only sequence that no other one uses and that
    takes one handle, which is given one op at a time.

    Raises:
        ScheduleError: There is no such sequence, or there are several.
    """
    sequences = sequences_of(own.operation)
    if MAIN in sequences:
        return checked_entry(sequences[MAIN], source)
    alone = free_sequences(sequences)
    free = [op for op in alone if not gives(op)] or alone
    if len(free) != 1:
        names = ", ".join(f"@{symbol(op)}" for op in free) or "none that stands alone"
        raise ScheduleError(
            f"{source} must hold @{MAIN}, or one sequence that no other includes; it has {names}; "
            f"name the entry @{MAIN} if it takes the payload, or leave one"
        )
    return checked_entry(free[0], source)


def find_matcher(own: ir.Module, source: str) -> ir.Operation | None:
    """The sequence that says which ops a script of one op is for: the only one that gives handles and no other uses.

    Raises:
        ScheduleError: There are several, or it takes something else than one handle.
    """
    sequences = sequences_of(own.operation)
    found = [op for op in free_sequences(sequences) if gives(op)] if MAIN not in sequences else []
    if len(found) > 1:
        names = " and ".join(f"@{symbol(op)}" for op in found)
        raise refuse_at(source, found[1], f"a script must match by one sequence, {names} give handles; include one")
    for op in found:
        kinds = [str(argument.type) for argument in op.regions[0].blocks[0].arguments]
        if len(kinds) != 1 or not kinds[0].startswith(HANDLES):
            raise refuse_at(source, op, f"@{symbol(op)} must take one handle to an op, it takes ({', '.join(kinds)})")
    return found[0] if found else None


def free_sequences(sequences: Mapping[str, ir.Operation]) -> list[ir.Operation]:
    """Sequences that no other one uses."""
    used = {name for op in sequences.values() for name in symbols_used(op)}
    return [op for name, op in sequences.items() if name not in used]


def gives(sequence: ir.Operation) -> int:
    """Number of values that a sequence yields."""
    return len(list(sequence.regions[0].blocks[0].operations)[-1].operation.operands)


def checked_entry(entry: ir.Operation, source: str) -> ir.Operation:
    """The entry, if it takes one handle and gives nothing.

    Raises:
        ScheduleError: The entry does not.
    """
    block = entry.regions[0].blocks[0]
    kinds = [str(argument.type) for argument in block.arguments]
    if len(kinds) != 1 or not kinds[0].startswith(HANDLES) or gives(entry):
        raise refuse_at(
            source,
            entry,
            f"@{symbol(entry)} must take one handle to an op and yield nothing, it takes ({', '.join(kinds)}) and "
            f"yields {gives(entry)} value(s); wrap it in a sequence that does",
        )
    return entry


def symbols_used(op: ir.Operation) -> list[str]:
    """Names of the sequences that ops inside an op refer to, in the order of the text."""
    return [name for inner in every_op(op) for name in symbols_in(inner)]


def symbols_in(op: ir.Operation) -> list[str]:
    """Names of the sequences that an op itself refers to: one, or a list of them."""
    found = []
    for value in op.attributes.values():
        each = list(value) if isinstance(value, ir.ArrayAttr) else [value]
        found += [one.value for one in each if isinstance(one, ir.FlatSymbolRefAttr)]
    return found


def sets_of(op: ir.Operation) -> dict[str, str]:
    """Attributes of an op that a knob gives the value of, with the name of the knob."""
    if SETS not in op.attributes or not isinstance(op.attributes[SETS], ir.DictAttr):
        return {}
    return {each.name: str(each.attr.value) for each in op.attributes[SETS] if isinstance(each.attr, ir.StringAttr)}


def consumes_its_payload(own: ir.Module, entry: ir.Operation) -> bool:
    """Whether the entry consumes the handle it is given, whatever it declares; declares it read-only where not."""
    declared = entry.attributes.get("arg_attrs", None)
    entry.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({"transform.readonly": ir.UnitAttr.get()})])
    try:
        own.operation.verify()
    except ir.MLIRError as error:
        if "consume" not in describe(error) or declared is None:
            raise
        entry.attributes["arg_attrs"] = declared
        return True
    return False
