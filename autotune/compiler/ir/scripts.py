"""Names of transform scripts, and built-in scripts that are run on a module like passes."""

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.module import describe
from autotune.core.errors import CompileError
from autotune.core.printable import first_lines

MAIN = "__transform_main"
SEQUENCE, UNNAMED = "transform.named_sequence", "transform.sequence"
SCHEDULES = "transform.with_named_sequence"  # attribute of a module that contains named sequences


def run_script(module: ir.Module, text: str) -> None:
    """Run the first named sequence of a script on a module, in place.

    Raises:
        CompileError: Stage ``lower``, with the first diagnostic.
    """
    script = ir.Module.parse(text)
    try:
        interpreter.apply_named_sequence(module.operation, script.body.operations[0], script.operation)
    except (ValueError, ir.MLIRError) as error:
        message = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("lower", first_lines(message.lstrip(": "))) from error
