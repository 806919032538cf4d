"""Pass pipelines from what a script leaves to the LLVM dialect."""

from autotune.compiler.module import run_passes
from autotune.compiler.packs import lower_packs
from autotune.compiler.rewrites import ARENA, REWRITES, Unit
from autotune.core.arena_plan import BufferPlan

ARENA_PASS = "autotune-arena"  # a pass of ours, not of MLIR; a pipeline may begin with it
_WITH_ARENA = f"builtin.module({ARENA_PASS},"

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


# Whatever decides, besides its script, which program a candidate becomes: part of every trial's identity.
COMPILATION = "\n".join((TAIL, *map(str, REWRITES)))


def plans_arena(pipeline: str) -> bool:
    """Tell whether a pipeline begins with `ARENA_PASS`."""
    return pipeline.startswith(_WITH_ARENA)


def run_pipeline(unit: Unit, pipeline: str) -> BufferPlan | None:
    """Run a textual pass pipeline on a unit, in place; packs are lowered first where no script has bufferized it.

    Where it begins with `ARENA_PASS` and then nothing is left to free, its passes that free are skipped: for a buffer
    that a loop carries they would write flags that the conversion to LLVM aborts on.

    Returns:
        Plan of the arena that buffers lie in; `None` where the pipeline does not begin with `ARENA_PASS`.

    Raises:
        CompileError: Stage ``lower``.
    """
    if unit.script is None:
        lower_packs(unit.module)
    if plans_arena(pipeline):
        ARENA.apply(unit)
    if unit.buffers is not None:
        rest = pipeline.removeprefix(_WITH_ARENA)
        pipeline = "builtin.module(" + (rest if unit.buffers.others else rest.removeprefix(_FREE))
    run_passes(unit.module, pipeline)
    return unit.buffers
