"""Apply transform scripts with the MLIR transform interpreter; errors name the location in the script."""

import re

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.limits import growth_fault
from autotune.compiler.ir.module import copy_module, describe, symbol
from autotune.compiler.passes.empty_handles import ENTRY
from autotune.compiler.script.trace import failing_op
from autotune.core.errors import CompileError
from autotune.core.printable import first_lines

UNKNOWN = "loc(unknown)"


def run_script(module: ir.Module, script: ir.Module | None, text: str, source: str = "schedule") -> None:
    """Apply a transform script to a module, in place.

    Args:
        module: Payload module.
        script: Script module.
        text: Text that the script was parsed from, for error messages.
        source: Name of the script in error messages.

    Raises:
        CompileError: Stage ``transform``, with the operation and location that the interpreter reports.
    """
    operations = script.body.operations if script is not None else ()
    entry = next((op for op in operations if symbol(op) == ENTRY), None)
    if script is None or entry is None:
        raise CompileError("transform", "schedule must hold a named sequence @__transform_main; add one")
    if (fault := growth_fault(script)) is not None:
        raise CompileError("transform", f"{source} {fault}")
    before = copy_module(module)
    try:
        interpreter.apply_named_sequence(module.operation, entry, script.operation)
    except (ValueError, ir.MLIRError) as error:
        message = without_preamble(describe(error) if isinstance(error, ir.MLIRError) else str(error))
        if message.startswith(UNKNOWN):  # reported on a payload operation; these have no location
            location = failing_op(before, script, ENTRY)
            message = message.replace(
                UNKNOWN, f"loc({location or ''})".replace("loc(loc(", "loc(").replace("))", ")"), 1
            )
        raise CompileError("transform", name_op(message, text, source)) from error


def name_op(message: str, script: str, source: str = "schedule") -> str:
    """Format a diagnostic of the interpreter as ``source:line:column: operation: message``.

    A `NameLoc` was attached by `empty_handles`; its name is the message.

    Example:
        >>> name_op('loc("-":1:6): too many tiles', "%t = transform.structured.fuse %op")
        'schedule:1:6: transform.structured.fuse: too many tiles'
    """
    # the interpreter raises plain text with the printed location in front
    location = re.match(r'loc\((?:"([^"]+)"\()?"-":(\d+):(\d+)\)+: *', message)
    if location is None:
        return message
    line, column = int(location[2]), int(location[3])
    lines = script.splitlines()
    op = re.search(r"transform\.[\w.]+", lines[line - 1][column - 1 :]) if line <= len(lines) else None
    return f"{source}:{line}:{column}: {f'{op[0]}: ' if op else ''}{location[1] or message[location.end() :]}"


def without_preamble(message: str) -> str:
    """Return a diagnostic without the prefix that the interpreter puts in front of every message."""
    message = message.replace("Failed to apply named transform sequence.", "").replace("Diagnostic message at ", "", 1)
    return first_lines(message)
