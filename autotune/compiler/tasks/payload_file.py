"""A user's own ``.mlir`` file as a payload: one public function over statically shaped memrefs."""

from mlir import ir

from autotune.compiler.laws import nesting_fault, program_fault
from autotune.compiler.module import context, parse, symbol
from autotune.compiler.nests import loop_nest, structured_ops
from autotune.core.errors import CompileError, PayloadError
from autotune.core.payload import DTYPES, WRITTEN, Argument, Payload

ROLE = "autotune.role"
MAIN, SEQUENCE = "__transform_main", "transform.named_sequence"
SCHEDULES = "transform.with_named_sequence"  # the attribute of a module that holds named sequences
WRITERS = {"memref.store": 1, "memref.copy": 1, "bufferization.materialize_in_destination": 1, "vector.store": 1}


def read_payload(name: str, text: str) -> Payload:
    """Read a payload from the text of a file; its oracle is the plain lowering of the same function.

    An argument is an output if the function writes it: as the ``outs`` of a linalg op, or by a store, a copy or
    ``bufferization.materialize_in_destination``. An argument attribute ``autotune.role = "output"`` says so too, and
    ``"state"`` says that it is read as well and kept from call to call.

    Transform ops beside the function, and modules of such ops, are left out of the text. Where they have an entry,
    ``@__transform_main``, the payload has the file as its schedule; else a note says that they are not used.

    Args:
        name: Path of the file, for messages.
        text: Text of the file.

    Raises:
        PayloadError: The text does not parse, is no such function, or no bundle of it could be replayed.
    """
    notes: tuple[str, ...] = ()
    schedule = ""
    check(name, nesting_fault(text))
    with context():
        try:
            module = parse(text, name)
        except CompileError as error:
            raise PayloadError(str(error)) from error
        has_entry = any(op.operation.name == SEQUENCE and symbol(op) == MAIN for op in schedules_in(module))
        if leave_out_schedules(module):
            text, schedule = str(module), text if has_entry else ""
            notes = () if has_entry else (f"{name} holds transform ops without @{MAIN}; they are not used",)
        function = only_public_function(module, name)
        arguments = read_arguments(function, name)
        check(name, program_fault(module))
        reduction = longest_reduction(function)
        entry = str(symbol(function))
    return Payload(name, text, entry, arguments, reduction=reduction, notes=notes, schedule=schedule)


def longest_reduction(function: ir.OpView) -> int:
    """Trip count of the longest loop that a structured op of a function sums over; 1 if there is none."""
    nests = [loop_nest(op.operation) for op, _ in structured_ops(function.regions[0].blocks[0])]
    loops = [(s, kind) for nest in nests if nest for s, kind in zip(nest.sizes, nest.iterators, strict=True)]
    return max((size for size, kind in loops if kind == "reduction"), default=1)


def check(path: str, fault: str | None) -> None:
    """Raise if there is a fault that would make readers refuse a bundle.

    Raises:
        PayloadError: There is a fault; the error names it and the file.
    """
    if fault is not None:
        raise PayloadError(f"{path} {fault}; change it, a bundle of it could not be replayed")


def leave_out_schedules(module: ir.Module) -> bool:
    """Erase the transform ops beside a payload, in place; tells whether there were any."""
    found = [op for op in module.body.operations if is_schedule(op.operation)]
    for op in found:
        op.operation.erase()
    if found and SCHEDULES in module.operation.attributes:
        del module.operation.attributes[SCHEDULES]
    return bool(found)


def schedules_in(module: ir.Module) -> list[ir.OpView]:
    """The transform ops beside a payload, and those in modules that are there for them."""
    found = list(module.body.operations)
    for op in found:
        if op.operation.name == "builtin.module":
            found += list(op.operation.regions[0].blocks[0].operations)
    return found


def is_schedule(op: ir.Operation) -> bool:
    """Tell whether an op is a transform op, or a module that is there for such ops."""
    if op.name != "builtin.module":
        return bool(op.name.startswith("transform."))
    held = list(op.regions[0].blocks[0].operations)
    return SCHEDULES in op.attributes or (bool(held) and all(is_schedule(inner.operation) for inner in held))


def only_public_function(module: ir.Module, path: str) -> ir.OpView:
    """The one public function with a body.

    Raises:
        PayloadError: There is none, or more than one.
    """
    found = []
    for op in module.body.operations:
        if op.operation.name == "func.func" and len(op.regions[0].blocks) > 0:
            visibility = op.attributes["sym_visibility"].value if "sym_visibility" in op.attributes else "public"
            if visibility == "public":
                found.append(op)
    if len(found) != 1:
        names = ", ".join(f"@{symbol(op)}" for op in found) or "none"
        raise PayloadError(
            f"{path} must define exactly one public function, it has {names}; mark the others `func.func private`"
        )
    return found[0]


def read_arguments(function: ir.OpView, path: str) -> tuple[Argument, ...]:
    """Name, role, shape and dtype of every argument.

    Raises:
        PayloadError: An argument is no static memref of a known element type, or nothing is written.
    """
    block = function.regions[0].blocks[0]
    if len(function.attributes["function_type"].value.results):
        raise PayloadError(
            f"@{symbol(function)} in {path} must write its results to memref arguments, it returns values; "
            "add an output argument and use bufferization.materialize_in_destination"
        )
    arguments = []
    for index, value in enumerate(block.arguments):
        kind = value.type
        if not isinstance(kind, ir.MemRefType) or not kind.has_static_shape or str(kind.element_type) not in DTYPES:
            raise PayloadError(
                f"argument {index} of @{symbol(function)} in {path} must be a memref of static shape over "
                f"{', '.join(DTYPES)}, got {kind}; fix its sizes"
            )
        role = declared_role(function, index) or ("output" if is_written(value) else "input")
        arguments.append(Argument(f"arg{index}", role, tuple(kind.shape), str(kind.element_type)))
    if not any(a.role in WRITTEN for a in arguments):
        raise PayloadError(
            f"@{symbol(function)} in {path} must write at least one argument, it writes none; "
            f'mark one with {{{ROLE} = "output"}}'
        )
    return tuple(arguments)


def declared_role(function: ir.OpView, index: int) -> str | None:
    """The argument's ``autotune.role`` attribute, if it has one."""
    if "arg_attrs" not in function.attributes:
        return None
    attributes = function.attributes["arg_attrs"][index]
    return str(attributes[ROLE].value) if ROLE in attributes else None


def is_written(value: ir.Value) -> bool:
    """Tell whether a use of the memref, or of a view of it, writes it."""
    for use in value.uses:
        op = use.owner.operation
        if op.name.startswith("linalg.") and use.operand_number >= first_output(op):
            return True
        if WRITERS.get(op.name) == use.operand_number:
            return True
        if op.name.startswith("memref.") and op.name not in WRITERS and any(is_written(r) for r in op.results):
            return True
    return False


def first_output(op: ir.Operation) -> int:
    """Index of a linalg op's first ``outs`` operand."""
    if "operandSegmentSizes" in op.attributes:
        return int(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0])
    return len(op.operands) - 1
