"""From a payload and a script to the LLVM dialect, with the seconds each phase took."""

from mlir import ir
from mlir.dialects.transform import interpreter
from mlir.passmanager import PassManager

from autotune.errors import CompileError
from autotune.ir import vector_math
from autotune.ir.module import describe, first_lines, parse, symbol

# After a script: buffers get an owner and are freed, what is left of linalg becomes loops, and all of it LLVM.
TAIL = (
    "builtin.module("
    "func.func(buffer-hoisting,buffer-loop-hoisting),"
    "ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,cse,canonicalize,"
    "convert-linalg-to-loops,loop-invariant-code-motion,canonicalize,cse,lower-affine,"
    "convert-vector-to-scf,expand-strided-metadata,lower-affine,convert-scf-to-cf,"
    "convert-vector-to-llvm{vector-contract-lowering=outerproduct reassociate-fp-reductions=true},"
    "convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,"
    "canonicalize,cse,reconcile-unrealized-casts)"
)

# Linalg straight to loops, no schedule: the oracle of payloads that bring none of their own.
PLAIN = TAIL.replace(
    "builtin.module(",
    "builtin.module(one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map},",
    1,
)


def apply_script(module: ir.Module, script: str) -> None:
    """Apply a transform script to a module, in place.

    Raises:
        CompileError: Stage ``transform``, with the op and location the interpreter names.
    """
    transform = parse(script, "schedule")
    try:
        entry = next(op for op in transform.body.operations if symbol(op) == "__transform_main")
        interpreter.apply_named_sequence(module.operation, entry, transform.operation)
    except StopIteration:
        raise CompileError("transform", "schedule must hold a named sequence @__transform_main; add one") from None
    except (ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("transform", _without_preamble(text)) from error


def run_pipeline(module: ir.Module, pipeline: str) -> None:
    """Run a textual pass pipeline on a module, in place.

    Raises:
        CompileError: Stage ``lower``.
    """
    try:
        PassManager.parse(pipeline).run(module.operation)
    except (ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("lower", first_lines(text.lstrip(": "))) from error


def schedule(module: ir.Module, script: str) -> None:
    """Apply a transform script, and what goes with every script: functions of vectors as polynomials."""
    apply_script(module, script)
    vector_math.approximate(module)


def _without_preamble(text: str) -> str:
    text = text.replace("Failed to apply named transform sequence.", "").replace("Diagnostic message at ", "", 1)
    return first_lines(text)
