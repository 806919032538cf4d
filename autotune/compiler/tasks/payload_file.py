"""A user's own ``.mlir`` file as a payload: one public function over statically shaped memrefs."""

from pathlib import Path

from mlir import ir

from autotune.compiler.module import context, parse, symbol
from autotune.compiler.nests import loop_nest, structured_ops
from autotune.core.errors import CompileError, PayloadError
from autotune.core.payload import DTYPES, WRITTEN, Argument, Payload

ROLE = "autotune.role"
WRITERS = {"memref.store": 1, "memref.copy": 1, "bufferization.materialize_in_destination": 1, "vector.store": 1}


def load_mlir_file(path: Path) -> Payload:
    """Read a payload from a file; its oracle is the plain lowering of the same function.

    An argument is an output if the function writes it: as the ``outs`` of a linalg op, or by a store, a copy or
    ``bufferization.materialize_in_destination``. An argument attribute ``autotune.role = "output"`` says so too, and
    ``"state"`` says that it is read as well and kept from call to call.

    Raises:
        PayloadError: The file cannot be read or parsed, or is no such function.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PayloadError(f"a payload file must be readable MLIR text, {path} is not: {reason}") from error
    with context():
        try:
            module = parse(text, str(path))
        except CompileError as error:
            raise PayloadError(str(error)) from error
        function = only_public_function(module, path)
        arguments = read_arguments(function, path)
        block = function.regions[0].blocks[0]
        nests = [(loop_nest(op.operation), trips) for op, trips in structured_ops(block)]
    sizes = [(nest.sizes, nest.iterators, trips) for nest, trips in nests if nest is not None]
    longest = [
        max((s for s, kind in zip(sizes_, kinds, strict=True) if kind == "reduction"), default=1)
        for sizes_, kinds, _ in sizes
    ]
    return Payload(
        name=str(path),
        text=text,
        entry=str(symbol(function)),
        arguments=arguments,
        reduction=max(longest, default=1),
    )


def only_public_function(module: ir.Module, path: Path) -> ir.OpView:
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


def read_arguments(function: ir.OpView, path: Path) -> tuple[Argument, ...]:
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
