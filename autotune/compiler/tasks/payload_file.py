"""Read a user's ``.mlir`` file as a payload: one public function over memrefs of static shape."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from mlir import ir

from autotune.compiler.ir.arguments import ROLE, role_attribute
from autotune.compiler.ir.limits import program_fault, recursion_fault, text_fault
from autotune.compiler.ir.module import context, parse, symbol, visibility
from autotune.compiler.ir.nests import loop_nest, structured_ops
from autotune.compiler.ir.scripts import MAIN, SCHEDULES, SEQUENCE, UNNAMED
from autotune.compiler.normalise.adopt import adopt
from autotune.compiler.tasks.carried import carry_in_place
from autotune.compiler.tasks.index_ranges import accepted_ranges
from autotune.compiler.tasks.ranges import range_of
from autotune.compiler.tasks.written import writer_of, writer_of_read_only
from autotune.core.errors import CompileError, PayloadError
from autotune.core.payload import DTYPES, MOST_DIMENSIONS, ROLES, WRITTEN, Argument, Payload


def read_payload(name: str, text: str) -> Payload:
    """Read a payload from the text of a file; its oracle is the plain lowering of the same function.

    An argument is an output if the function may write it, that is, if it or a view of it is an operand of an operation
    that is not known to only read. The argument attribute ``autotune.role`` overrides this: ``"output"``, or
    ``"state"`` if the argument is read as well and keeps its contents between calls. Random data are drawn from
    ``autotune.low`` up to ``autotune.high`` (exclusive).

    A function of tensors is converted to memrefs, and its results become outputs; ``cf.assert`` is erased, i1 is stored
    as i8.

    Transform operations beside the function, and modules of them, are removed from the text. If they have an entry,
    ``@__transform_main``, the file is the schedule of the payload; otherwise a note says that they are not used.

    Args:
        name: Path of the file, for error messages.
        text: Contents of the file.

    Raises:
        PayloadError: The text does not parse, has no supported function, or a bundle of it could not be replayed.
    """
    notes: tuple[str, ...] = ()
    schedule = ""
    check(name, text_fault(text))
    with context():
        try:
            module = parse(text, name)
        except CompileError as error:
            raise PayloadError(str(error)) from error
        has_entry = any(is_entry(op) for op in schedules_in(module))
        if leave_out_schedules(module):
            text, schedule = str(module), text if has_entry else ""
            notes = () if has_entry else (f"{name} holds transform ops without @{MAIN}; they are not used",)
        check(name, recursion_fault(module))
        if adopt(module, lambda: only_public_function(module, name)):
            text = str(module)
        function = only_public_function(module, name)
        arguments = read_arguments(function, name)
        check(name, program_fault(module))
        if (writer := writer_of_read_only(module)) is not None:
            raise PayloadError(
                f"buffers of {name} that are read_only must not be written, {writer} may write one; copy it"
            )
        if carry_in_place(module, name):
            text = str(module)
        reduction = longest_reduction(function)
        entry = str(symbol(function))
    return Payload(name, text, entry, arguments, reduction=reduction, notes=notes, schedule=schedule, foreign=True)


def longest_reduction(function: ir.OpView) -> int:
    """Return the length of the longest chain of additions that an element depends on.

    It is the largest sum of reduction trip counts along a def-use path, as rounding errors of consecutive layers
    accumulate.
    """
    depth: dict[ir.Value, int] = {}
    for op in function.regions[0].blocks[0].operations:
        before = max((depth.get(value, 0) for value in read_by(op.operation)), default=0)
        nest = loop_nest(op.operation) if op.operation.name.startswith("linalg.") else None
        own_length = prod(nest.reduced) if nest is not None else inner_reduction(op)
        depth |= dict.fromkeys(op.operation.results, before + (own_length if own_length > 1 else 0))
    return max(depth.values(), default=0) or 1


def read_by(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the operands of an operation and of all operations nested in it."""
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from read_by(inner.operation)


def inner_reduction(op: ir.OpView) -> int:
    """Return the length of the longest reduction nested in an `scf` operation, such as a loop; 1 if there is none."""
    blocks = [block for region in op.regions for block in region.blocks] if op.operation.name.startswith("scf.") else []
    nests = [loop_nest(inner.operation) for block in blocks for inner, _ in structured_ops(block)]
    return max((prod(nest.reduced) for nest in nests if nest is not None), default=1)


def check(path: str, fault: str | None) -> None:
    """Raise an error if `fault`, for which a bundle of the file would be rejected, is not `None`.

    Raises:
        PayloadError: There is a fault; the error names the fault and the file.
    """
    if fault is not None:
        raise PayloadError(f"{path} {fault}; change it, a bundle of it could not be replayed")


def leave_out_schedules(module: ir.Module) -> bool:
    """Erase the transform operations beside a payload, in place; return whether there were any."""
    schedules = [op for op in module.body.operations if is_schedule(op.operation)]
    for op in schedules:
        op.operation.erase()
    if schedules and SCHEDULES in module.operation.attributes:
        del module.operation.attributes[SCHEDULES]
    return bool(schedules)


def schedules_in(module: ir.Module) -> list[ir.OpView]:
    """Return the top-level operations of a module and of the modules nested in it."""
    ops = list(module.body.operations)
    for op in ops:
        if op.operation.name == "builtin.module":
            ops += list(op.operation.regions[0].blocks[0].operations)
    return ops


def is_entry(op: ir.OpView) -> bool:
    """Return whether an operation is the entry of a schedule: ``@__transform_main``, or a `transform.sequence`."""
    return op.operation.name == UNNAMED or (op.operation.name == SEQUENCE and symbol(op) == MAIN)


def is_schedule(op: ir.Operation) -> bool:
    """Return whether an operation is a transform operation, or a module of transform operations."""
    if op.name != "builtin.module":
        return bool(op.name.startswith("transform."))
    ops = list(op.regions[0].blocks[0].operations)
    return SCHEDULES in op.attributes or (bool(ops) and all(is_schedule(inner.operation) for inner in ops))


def only_public_function(module: ir.Module, path: str) -> ir.OpView:
    """Return the only public function with a body.

    Raises:
        PayloadError: There is no such function, or more than one.
    """
    functions = []
    for op in module.body.operations:
        if op.operation.name == "func.func" and len(op.regions[0].blocks) > 0 and visibility(op) == "public":
            functions.append(op)
    if len(functions) != 1:
        names = ", ".join(f"@{symbol(op)}" for op in functions) or "none"
        raise PayloadError(
            f"{path} must define exactly one public function, it has {names}; mark the others `func.func private`"
        )
    return functions[0]


def read_arguments(function: ir.OpView, path: str) -> tuple[Argument, ...]:
    """Return name, role, shape, dtype and range of every argument.

    Raises:
        PayloadError: An argument is not a contiguous memref of static shape and supported element type, the function
            returns values, or no argument is written.
    """
    block = function.regions[0].blocks[0]
    if len(function.attributes["function_type"].value.results):
        raise PayloadError(
            f"@{symbol(function)} in {path} must write its results to memref arguments, it returns values; "
            "add an output argument and use bufferization.materialize_in_destination"
        )
    arguments = []
    for index, value in enumerate(block.arguments):
        arg_type = value.type
        if not isinstance(arg_type, ir.MemRefType) or not arg_type.has_static_shape:
            is_open = isinstance(arg_type, (ir.MemRefType, ir.UnrankedMemRefType))
            way_out = "fix its sizes" if is_open else "store it in one, such as memref<1xf32>"
            raise PayloadError(
                f"argument {index} of @{symbol(function)} in {path} must be a memref of static shape, got {arg_type}; "
                f"{way_out}"
            )
        if str(arg_type.element_type) not in DTYPES:
            raise PayloadError(
                f"argument {index} of @{symbol(function)} in {path} must have elements of {', '.join(DTYPES)}, "
                f"got {arg_type}; store them as one of those"
            )
        if arg_type.rank > MOST_DIMENSIONS:
            raise PayloadError(
                f"argument {index} of @{symbol(function)} in {path} must have {MOST_DIMENSIONS} dimensions at most, "
                f"it has {arg_type.rank}; collapse some"
            )
        if str(arg_type) != (plain := plain_type(arg_type)):
            raise PayloadError(
                f"argument {index} of @{symbol(function)} in {path} must be {plain}, whose elements lie one behind "
                f"another, got {arg_type}; copy it into one of other steps"
            )
        role = role_of(function, index, path)
        low, high = range_of(function, index, value)
        arguments.append(Argument(f"arg{index}", role, tuple(arg_type.shape), str(arg_type.element_type), low, high))
    if not any(a.role in WRITTEN for a in arguments):
        raise PayloadError(
            f"@{symbol(function)} in {path} must write at least one argument, it writes none; "
            f'mark one with {{{ROLE} = "output"}}'
        )
    return with_accepted(function, arguments)


def plain_type(memref_type: ir.MemRefType) -> str:
    """Return the type of a memref of the same shape and element type with identity layout (row-major)."""
    return "x".join(("memref<", *map(str, memref_type.shape), f"{memref_type.element_type}>")).replace("<x", "<")


def with_accepted(function: ir.OpView, arguments: list[Argument]) -> tuple[Argument, ...]:
    """Return arguments with the range of integers that calls may pass for those that are only read."""
    values = function.regions[0].blocks[0].arguments
    is_integer_input = [a.dtype.startswith("i") and a.role not in WRITTEN for a in arguments]
    drawn = {
        v: (int(a.low), int(a.high)) for v, a, each in zip(values, arguments, is_integer_input, strict=True) if each
    }
    accepted = accepted_ranges(function, drawn)
    return tuple(replace(a, accepts=accepted.get(v)) for v, a in zip(values, arguments, strict=True))


def role_of(function: ir.OpView, index: int, path: str) -> str:
    """Return the ``autotune.role`` of an argument; by default, ``output`` if it may be written, else ``input``.

    Raises:
        PayloadError: An argument that is declared an input or a weight may be written.
    """
    role, writer = role_attribute(function, index), writer_of(function.regions[0].blocks[0].arguments[index])
    if role is None:
        return "input" if writer is None else "output"
    if role in ROLES and role not in WRITTEN and writer is not None:
        raise PayloadError(
            f"argument {index} of @{symbol(function)} in {path} must only be read, as its {ROLE} is {role}, {writer} "
            f'may write it; mark it {{{ROLE} = "state"}}, or write to another'
        )
    return role
