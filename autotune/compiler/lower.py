"""From a payload and a script to the LLVM dialect."""

import re

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.module import describe, first_lines, parse, run_passes, symbol
from autotune.compiler.passes import vector_math
from autotune.compiler.passes.arena import plan_arena
from autotune.compiler.passes.empty_handles import ENTRY, insist
from autotune.compiler.passes.fastmath import flags_of_extrema, keep_flags
from autotune.compiler.passes.prefetch import prefetch_copied
from autotune.compiler.passes.prefetch_rows import prefetch_rows
from autotune.compiler.passes.skip_masked import skip_hidden
from autotune.compiler.passes.zeros import start_from_zero
from autotune.core.arena_plan import BufferPlan
from autotune.core.errors import CompileError

ARENA = "autotune-arena"  # a pass of ours, not of MLIR; a pipeline may begin with it
_WITH_ARENA = f"builtin.module({ARENA},"

# Allocated buffers get an owner and are freed.
_FREE = (
    "func.func(buffer-hoisting,buffer-loop-hoisting),"
    "ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,"
)

# What is left of linalg becomes loops, and all of it LLVM.
_TO_LLVM = (
    "cse,canonicalize,"
    "convert-linalg-to-loops,loop-invariant-code-motion,canonicalize,cse,lower-affine,"
    "convert-vector-to-scf,expand-strided-metadata,lower-affine,convert-scf-to-cf,"
    "convert-vector-to-llvm{vector-contract-lowering=outerproduct reassociate-fp-reductions=true},"
    "convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,"
    "canonicalize,cse,reconcile-unrealized-casts"
)

# After a script.
TAIL = f"{_WITH_ARENA}{_FREE}{_TO_LLVM})"

# Linalg straight to loops, no schedule: the oracle of payloads that bring none of their own.
PLAIN = (
    "builtin.module(one-shot-bufferize{bufferize-function-boundaries "
    f"function-boundary-type-conversion=identity-layout-map}},canonicalize,{_FREE}{_TO_LLVM})"
)


def apply_script(module: ir.Module, script: str) -> None:
    """Apply a transform script to a module, in place; a handle that holds nothing where it is used is an error.

    Raises:
        CompileError: Stage ``transform``, with the op and location the interpreter names.
    """
    transform = parse(script, "schedule")
    try:
        entry = next(op for op in transform.body.operations if symbol(op) == ENTRY)
        insist(transform)
        interpreter.apply_named_sequence(module.operation, entry, transform.operation)
    except StopIteration:
        raise CompileError("transform", "schedule must hold a named sequence @__transform_main; add one") from None
    except (ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        raise CompileError("transform", name_op(_without_preamble(text), script)) from error


def plans_arena(pipeline: str) -> bool:
    """Tell whether a pipeline begins with `ARENA`."""
    return pipeline.startswith(_WITH_ARENA)


def run_pipeline(module: ir.Module, pipeline: str) -> BufferPlan | None:
    """Run a textual pass pipeline on a module, in place.

    Where it begins with `ARENA` and then nothing is left to free, its passes that free are skipped: for a buffer that a
    loop carries they would write flags that the conversion to LLVM aborts on.

    Returns:
        Where buffers lie in the arena; `None` where the pipeline does not begin with `ARENA`.

    Raises:
        CompileError: Stage ``lower``.
    """
    plan = plan_arena(module) if plans_arena(pipeline) else None
    if plan is not None:
        rest = pipeline.removeprefix(_WITH_ARENA)
        pipeline = "builtin.module(" + (rest if plan.others else rest.removeprefix(_FREE))
    run_passes(module, pipeline)
    return plan


def schedule(module: ir.Module, script: str) -> None:
    """Apply a transform script, act on the marks it left, and turn functions of vectors into polynomials."""
    flags = flags_of_extrema(module)
    apply_script(module, script)
    keep_flags(module, flags)
    skip_hidden(module)
    start_from_zero(module)
    prefetch_copied(module)
    prefetch_rows(module)
    vector_math.approximate(module)


def name_op(text: str, script: str) -> str:
    """A diagnostic of the interpreter, with the place in the script as ``schedule:line:column`` and the op there.

    A place with a name is one of `insist`'s, and the name says all.

    Example:
        >>> name_op('loc("-":1:6): too many tiles', "%t = transform.structured.fuse %op")
        'schedule:1:6: transform.structured.fuse: too many tiles'
    """
    place = re.match(r'loc\((?:"([^"]+)"\()?"-":(\d+):(\d+)\)+: *', text)
    if place is None:
        return text
    line, column = int(place[2]), int(place[3])
    lines = script.splitlines()
    op = re.search(r"transform\.[\w.]+", lines[line - 1][column - 1 :]) if line <= len(lines) else None
    return f"schedule:{line}:{column}: {f'{op[0]}: ' if op else ''}{place[1] or text[place.end() :]}"


def _without_preamble(text: str) -> str:
    text = text.replace("Failed to apply named transform sequence.", "").replace("Diagnostic message at ", "", 1)
    return first_lines(text)
