"""Parsing, with errors a user can act on, and the compiler's version."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mlir import ir
from mlir.passmanager import PassManager

from autotune.core.errors import CompileError, PayloadError
from autotune.core.host.extras import version_of
from autotune.core.printable import first_lines

# Dialects that code of ours writes ops of. Others are loaded where a text has them, or a pass or script that runs asks.
WRITTEN = (
    *("affine", "arith", "bufferization", "cf", "func", "linalg", "llvm", "math", "memref", "omp", "pdl", "scf"),
    *("tensor", "ub", "vector"),
)
CLEAN = "builtin.module(canonicalize,cse)"  # the pipeline behind what was written otherwise
PROVIDERS = ("xtc-mlir-python-bindings", "mlir-python-bindings", "mlir-core", "mlir")


@contextmanager
def context(*, writes: bool = True) -> Iterator[ir.Context]:
    """A fresh MLIR context with an unknown location, for one compilation.

    Args:
        writes: Whether dialects are loaded that ops may be written of, which takes 4 ms, as all would take 12; else
            those alone of ops that are parsed.
    """
    with ir.Context(load_on_create_dialects=list(WRITTEN) if writes else []) as ctx, ir.Location.unknown():
        yield ctx


def parse(text: str, what: str) -> ir.Module:
    """Parse a module in the current context.

    Args:
        text: MLIR assembly.
        what: Name that the user knows the module by, such as a file name; begins the error message.

    Raises:
        CompileError: The text does not parse; the error has line and column of the first problem.
    """
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise CompileError("parse", f"{what}{describe(error)}") from error


def check_module(module: ir.Module) -> None:
    """Raise unless a module that was transformed obeys the constraints of its ops.

    Raises:
        CompileError: Stage ``verify``, with the op that breaks one.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise CompileError("verify", describe(error).lstrip(": ")) from error


def run_passes(module: ir.Module, pipeline: str) -> None:
    """Run a textual pass pipeline of MLIR's own passes on a module, in place.

    Raises:
        CompileError: Stage ``lower``, with the first diagnostic.
    """
    try:
        PassManager.parse(pipeline).run(module.operation)
    except (ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("lower", first_lines(text.lstrip(": "))) from error


def describe(error: ir.MLIRError) -> str:
    """First diagnostic of an MLIR error as ``:line:column: message``, line and column where they are known."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return f": {first_lines(str(error))}"
    where = line_and_column(diagnostics[0].location)
    location = f":{where[0]}:{where[1]}" if where is not None else ""
    return f"{location}: {first_lines(diagnostics[0].message)}"


def line_and_column(location: ir.Location) -> tuple[int, int] | None:
    """Line and column in the text that a location is of; `None` where it is of none."""
    if location.is_a_file():
        return location.start_line, location.start_col
    if location.is_a_name():
        return line_and_column(location.child_loc)
    if location.is_a_callsite():
        return line_and_column(location.callee) or line_and_column(location.caller)
    parts = location.locations if location.is_a_fused() else ()
    return next(filter(None, map(line_and_column, parts)), None)


def symbol(op: ir.OpView) -> str | None:
    """The name an op defines, if it defines one."""
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else None


def visibility(op: ir.OpView) -> str:
    """Who sees the name that an op defines: ``public`` unless it says another."""
    return str(op.attributes["sym_visibility"].value) if "sym_visibility" in op.attributes else "public"


def copy_module(module: ir.Module) -> ir.Module:
    """A module like another, locations included.

    Its ops are cloned one by one into a new module: one clone of the whole belongs to nobody, and was freed twice.
    """
    copy = ir.Module.create()
    for name, value in module.operation.attributes.items():
        copy.operation.attributes[name] = value
    end = ir.InsertionPoint(copy.body)
    for op in module.body.operations:
        op.operation.clone(end)
    return copy


def every_op(root: ir.Module | ir.Operation) -> list[ir.Operation]:
    """A module or an op, and every op inside of it, in the order of the text."""
    found: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def replace_ops(
    module: ir.Module,
    ops: Iterable[ir.Operation],
    write: Callable[[ir.Operation], ir.Value | None],
    *,
    passes: str = "",
) -> bool:
    """Replace the result of an op by what `write` makes before it, in place, but for `None`.

    Args:
        module: The module.
        ops: Ops of one result, none in another.
        write: Makes what replaces the result of one.
        passes: A pipeline that runs behind, if any op was replaced.

    Returns:
        Whether any was.
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
    """A name, or one that begins so, that nothing in a module has."""
    taken = {symbol(op) for op in module.body.operations}
    while name in taken:
        name += "_"
    return name


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """The op of a block that an op is, or is inside of."""
    while op.block != block:
        op = op.parent.operation
    return op


def every_name(module: ir.Module) -> set[str]:
    """Names of all ops in a module."""
    return {op.name for op in every_op(module)}


def compiler_version() -> str:
    """Name and version of the distribution that provides MLIR."""
    found = (f"{name} {version}" for name in PROVIDERS if (version := version_of(name)))
    return next(found, "mlir of unknown version")


def find_function(module: ir.Module, name: str) -> ir.OpView:
    """The function called `name`.

    Raises:
        PayloadError: The function is missing, or has no body.
    """
    for op in module.body.operations:
        if op.operation.name == "func.func" and symbol(op) == name and op.regions[0].blocks:
            return op
    raise PayloadError(f"the module must define function @{name}; it does not")
