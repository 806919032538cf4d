"""Modules: contexts, parsing with user-facing errors, pass pipelines, symbols, walks, and the compiler's version."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mlir import ir
from mlir.passmanager import PassManager

from autotune.core.errors import CompileError, PayloadError
from autotune.core.host.extras import version_of
from autotune.core.printable import first_lines

# Dialects that our rewrites create ops of. Others are loaded when parsed text, a pass or a script needs them.
WRITTEN = (
    *("affine", "arith", "bufferization", "cf", "func", "linalg", "llvm", "math", "memref", "omp", "pdl", "scf"),
    *("tensor", "ub", "vector"),
)
CLEAN = "builtin.module(canonicalize,cse)"  # cleanup pipeline after a rewrite
PROVIDERS = ("xtc-mlir-python-bindings", "mlir-python-bindings", "mlir-core", "mlir")


@contextmanager
def context(*, writes: bool = True) -> Iterator[ir.Context]:
    """A fresh MLIR context with an unknown location, for one compilation.

    Args:
        writes: Whether to load the dialects whose ops may be created, which takes 4 ms (all dialects: 12 ms);
            otherwise, only those of parsed ops are loaded.
    """
    with ir.Context(load_on_create_dialects=list(WRITTEN) if writes else []) as ctx, ir.Location.unknown():
        yield ctx


def parse(text: str, name: str) -> ir.Module:
    """Parse a module in the current context.

    Args:
        text: MLIR assembly.
        name: Name that the user knows the module by, such as a file name; begins the error message.

    Raises:
        CompileError: Invalid text; the error has line and column of the first diagnostic.
    """
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise CompileError("parse", f"{name}{describe(error)}") from error


def check_module(module: ir.Module) -> None:
    """Verify a transformed module.

    Raises:
        CompileError: Stage ``verify``, with the first diagnostic.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise CompileError("verify", describe(error).lstrip(": ")) from error


def run_passes(module: ir.Module, pipeline: str) -> None:
    """Run a textual pass pipeline of upstream passes on a module, in place.

    Raises:
        CompileError: Stage ``lower``, with the first diagnostic.
    """
    try:
        PassManager.parse(pipeline).run(module.operation)
    except (ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("lower", first_lines(text.lstrip(": "))) from error


def describe(error: ir.MLIRError) -> str:
    """Format the first diagnostic of an MLIR error as ``:line:column: message``, with line and column where known."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return f": {first_lines(str(error))}"
    where = line_and_column(diagnostics[0].location)
    location = f":{where[0]}:{where[1]}" if where is not None else ""
    return f"{location}: {first_lines(diagnostics[0].message)}"


def line_and_column(location: ir.Location) -> tuple[int, int] | None:
    """Return the source line and column of a location; `None` if it has none."""
    if location.is_a_file():
        return location.start_line, location.start_col
    if location.is_a_name():
        return line_and_column(location.child_loc)
    if location.is_a_callsite():
        return line_and_column(location.callee) or line_and_column(location.caller)
    fused_locations = location.locations if location.is_a_fused() else ()
    return next(filter(None, map(line_and_column, fused_locations)), None)


def symbol(op: ir.OpView) -> str | None:
    """Return the symbol name of an operation; `None` if it defines none."""
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else None


def visibility(op: ir.OpView) -> str:
    """Return the symbol visibility of an operation; ``public`` by default."""
    return str(op.attributes["sym_visibility"].value) if "sym_visibility" in op.attributes else "public"


def copy_module(module: ir.Module) -> ir.Module:
    """Return a copy of a module, locations included.

    Operations are cloned one by one into a new module: the Python bindings do not own a clone of a whole module
    correctly, which led to a double free.
    """
    copy = ir.Module.create()
    for name, value in module.operation.attributes.items():
        copy.operation.attributes[name] = value
    end = ir.InsertionPoint(copy.body)
    for op in module.body.operations:
        op.operation.clone(end)
    return copy


def every_op(root: ir.Module | ir.Operation) -> list[ir.Operation]:
    """Return an operation and all operations nested in it, in pre-order."""
    ops: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        ops.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return ops


def replace_ops(
    module: ir.Module,
    ops: Iterable[ir.Operation],
    write: Callable[[ir.Operation], ir.Value | None],
    *,
    passes: str = "",
) -> bool:
    """Replace the result of each operation by the value that `write` builds before it, in place; `None` keeps it.

    Args:
        module: The module.
        ops: Operations of one result, none nested in another.
        write: Builder of the replacement, called with the insertion point before the operation.
        passes: Pass pipeline to run afterwards, if any operation was replaced.

    Returns:
        Whether any operation was replaced.
    """
    changed = False
    for op in ops:
        with ir.InsertionPoint(op), op.location:
            value = write(op)
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            op.erase()
            changed = True
    if changed and passes:
        run_passes(module, passes)
    return changed


def free_name(module: ir.Module, name: str) -> str:
    """Return a symbol name unused in a module: the given one, with underscores appended as needed."""
    used = {symbol(op) for op in module.body.operations}
    while name in used:
        name += "_"
    return name


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """Return the ancestor of an operation (or itself) that is directly in a block."""
    while op.block != block:
        op = op.parent.operation
    return op


def every_name(module: ir.Module) -> set[str]:
    """Return the names of all operations in a module."""
    return {op.name for op in every_op(module)}


def compiler_version() -> str:
    """Return the name and version of the distribution that provides MLIR."""
    versions = (f"{name} {version}" for name in PROVIDERS if (version := version_of(name)))
    return next(versions, "mlir of unknown version")


def find_function(module: ir.Module, name: str) -> ir.OpView:
    """Return the function with a body called `name`.

    Raises:
        PayloadError: The function is missing, or has no body.
    """
    for op in module.body.operations:
        if op.operation.name == "func.func" and symbol(op) == name and op.regions[0].blocks:
            return op
    raise PayloadError(f"the module must define function @{name}; it does not")
