"""User schedule files: extract the transform operations, with their source locations, and find the entry.

The file may also contain the payload, as upstream examples do; it is ignored. The text is untrusted, so everything here
runs in the isolated process.
"""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.limits import text_fault
from autotune.compiler.ir.module import describe, every_op, line_and_column, parse, symbol
from autotune.compiler.ir.scripts import MAIN, SCHEDULES, SEQUENCE, UNNAMED
from autotune.core.errors import CompileError, ScheduleError
from autotune.core.scripts.marks import SETS

HANDLES = ("!transform.any_op", "!transform.op<")
PROPAGATE = 1  # enum value of the failure propagation mode `propagate`


def location_of(op: ir.Operation) -> tuple[int, int]:
    """Return the line and column of an operation in the text that it was parsed from."""
    return line_and_column(op.location) or (1, 1)


def refuse_at(source: str, op: ir.Operation, sentence: str) -> ScheduleError:
    """Return an error about an operation of a user file, prefixed with ``source:line:column``."""
    line, column = location_of(op)
    return ScheduleError(f"{source}:{line}:{column}: {sentence}")


def open_module(text: str, source: str) -> ir.Module:
    """Parse a file in the current context and return its transform operations as a module, with their locations.

    Args:
        text: Contents of the file.
        source: Name of the file.

    Raises:
        ScheduleError: The file does not parse, has no named sequence, or has several modules with an entry.
    """
    return transform_ops(parse_file(text, source), source)


def parse_file(text: str, source: str) -> ir.Module:
    """Parse a file in the current context; raises as `open_module`."""
    if (fault := text_fault(text)) is not None:
        raise ScheduleError(f"{source} {fault}; write it flatter")
    try:
        return parse(text, source)
    except CompileError as error:
        raise ScheduleError(str(error)) from error


def transform_ops(module: ir.Module, source: str) -> ir.Module:
    """Clone the transform operations of a module into a new module; raises as `open_module`."""
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
    """Replace a `transform.sequence`, as in upstream examples, by the named sequence ``@__transform_main``.

    Raises:
        ScheduleError: The sequence suppresses failures.
    """
    block = sequence.regions[0].blocks[0]
    if int(ir.IntegerAttr(sequence.attributes["failure_propagation_mode"])) != PROPAGATE:
        raise refuse_at(source, sequence, "a schedule must fail where an op does; write failures(propagate)")
    argument_types = [argument.type for argument in block.arguments]
    consumed = ir.DictAttr.get({"transform.consumed": ir.UnitAttr.get()})
    attributes = {
        "sym_name": ir.StringAttr.get(MAIN),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(argument_types, [])),
        "arg_attrs": ir.ArrayAttr.get([consumed] * len(argument_types)),
    }
    with ir.InsertionPoint(sequence), sequence.location:
        entry = ir.Operation.create(SEQUENCE, regions=1, attributes=attributes)
    block.append_to(entry.regions[0])
    sequence.erase()


def find_holder(module: ir.Module, source: str) -> ir.Operation:
    """Return the module that contains ``@__transform_main``, or else the only module with named sequences.

    Raises:
        ScheduleError: There is no such module, or there are several.
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
    """Return a module and the modules nested in it, in the order of the text."""
    inner = [each.operation for each in op.regions[0].blocks[0].operations if each.operation.name == "builtin.module"]
    return [op, *(module for each in inner for module in modules_in(each))]


def sequences_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """Return the sequences of a module that have a body, by name; an unnamed one is the entry."""
    ops = [op.operation for op in module.regions[0].blocks[0].operations if op.operation.name in (SEQUENCE, UNNAMED)]
    return {str(symbol(op) or MAIN): op for op in ops if len(op.regions[0].blocks)}


def find_entry(own: ir.Module, source: str) -> ir.Operation:
    """Return the entry sequence of a schedule.

    It is ``@__transform_main``, which is applied to the payload; or else the only sequence that no other sequence uses
    and that takes one handle, which is applied to one operation at a time.

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
    """Return the matcher of a script for one operation: the only unused sequence that yields handles; `None` if absent.

    Raises:
        ScheduleError: There are several matchers, or the matcher does not take exactly one handle.
    """
    sequences = sequences_of(own.operation)
    matchers = [op for op in free_sequences(sequences) if gives(op)] if MAIN not in sequences else []
    if len(matchers) > 1:
        names = " and ".join(f"@{symbol(op)}" for op in matchers)
        raise refuse_at(source, matchers[1], f"a script must match by one sequence, {names} give handles; include one")
    for op in matchers:
        types = [str(argument.type) for argument in op.regions[0].blocks[0].arguments]
        if len(types) != 1 or not types[0].startswith(HANDLES):
            raise refuse_at(source, op, f"@{symbol(op)} must take one handle to an op, it takes ({', '.join(types)})")
    return matchers[0] if matchers else None


def free_sequences(sequences: Mapping[str, ir.Operation]) -> list[ir.Operation]:
    """Return the sequences that no other sequence refers to."""
    used = {name for op in sequences.values() for name in symbols_used(op)}
    return [op for name, op in sequences.items() if name not in used]


def gives(sequence: ir.Operation) -> int:
    """Return the number of values that a sequence yields."""
    return len(list(sequence.regions[0].blocks[0].operations)[-1].operation.operands)


def checked_entry(entry: ir.Operation, source: str) -> ir.Operation:
    """Return the entry after checking that it takes one handle and yields nothing.

    Raises:
        ScheduleError: The entry has another signature.
    """
    block = entry.regions[0].blocks[0]
    types = [str(argument.type) for argument in block.arguments]
    if len(types) != 1 or not types[0].startswith(HANDLES) or gives(entry):
        raise refuse_at(
            source,
            entry,
            f"@{symbol(entry)} must take one handle to an op and yield nothing, it takes ({', '.join(types)}) and "
            f"yields {gives(entry)} value(s); wrap it in a sequence that does",
        )
    return entry


def symbols_used(op: ir.Operation) -> list[str]:
    """Return the sequences that an operation or its nested operations refer to, in the order of the text."""
    return [name for inner in every_op(op) for name in symbols_in(inner)]


def symbols_in(op: ir.Operation) -> list[str]:
    """Return the names of the sequences that the attributes of an operation refer to, alone or in arrays."""
    symbols = []
    for value in op.attributes.values():
        values = list(value) if isinstance(value, ir.ArrayAttr) else [value]
        symbols += [item.value for item in values if isinstance(item, ir.FlatSymbolRefAttr)]
    return symbols


def sets_of(op: ir.Operation) -> dict[str, str]:
    """Return the attributes of an operation whose value a knob sets, with the name of the knob."""
    if SETS not in op.attributes or not isinstance(op.attributes[SETS], ir.DictAttr):
        return {}
    return {each.name: str(each.attr.value) for each in op.attributes[SETS] if isinstance(each.attr, ir.StringAttr)}


def consumes_its_payload(own: ir.Module, entry: ir.Operation) -> bool:
    """Return whether the entry consumes its handle, whatever it declares; declare it read-only if it does not."""
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
