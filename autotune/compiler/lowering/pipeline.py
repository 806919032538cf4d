"""Pass pipelines from what a script leaves to the LLVM dialect."""

import re

from autotune.compiler.ir.module import run_passes
from autotune.compiler.ir.packs import lower_packs
from autotune.compiler.lowering.rewrites import ARENA, REGIONS, Unit, rewrites_on
from autotune.compiler.lowering.steps import PARTS
from autotune.compiler.tasks.carried import BUFFERIZE
from autotune.core.arena_plan import BufferPlan

# Passes of ours, not of MLIR: a pipeline may begin with the first, and have the second between others.
ARENA_PASS, REGIONS_PASS = "autotune-arena", "autotune-regions"
_WITH_ARENA = f"builtin.module({ARENA_PASS},"
_THREADS = re.compile(r"num-threads=(\d{1,4})\b")

# Allocated buffers get an owner and are freed.
_HOIST = "func.func(buffer-hoisting,buffer-loop-hoisting),"
_FREE = (
    f"{_HOIST}ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,"
)

# What is left of linalg becomes loops.
_TO_LOOPS = (
    "cse,canonicalize,"
    "convert-linalg-to-loops,loop-invariant-code-motion,canonicalize,cse,lower-affine,"
    "convert-vector-to-scf,expand-strided-metadata,lower-affine,"
)
_ARITHMETIC = (
    "convert-vector-to-llvm{vector-contract-lowering=outerproduct reassociate-fp-reductions=true},"
    "convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,"
)
_LAST = "convert-ub-to-llvm,canonicalize,cse,reconcile-unrealized-casts"
# All of it becomes LLVM.
_TO_LLVM = (
    f"{_TO_LOOPS}convert-scf-to-cf,{_ARITHMETIC}finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,{_LAST}"
)
# The same with parallel loops. What they put on the stack must be LLVM before loops become branches: a scope of the
# stack takes one block. The last of OpenMP's ops have legal operands only when memory and functions are LLVM.
_PARALLEL = (
    f"{_TO_LOOPS}scf-forall-to-parallel,convert-scf-to-openmp{{num-threads=THREADS}},{REGIONS_PASS},"
    "finalize-memref-to-llvm,"
    f"convert-scf-to-cf,{_ARITHMETIC}"
    f"finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-openmp-to-llvm,{_LAST}"
)

# After a script.
TAIL = f"{_WITH_ARENA}{_FREE}{_TO_LLVM})"

# Linalg straight to loops, no schedule: the oracle of payloads that bring none of their own.
PLAIN = f"builtin.module({BUFFERIZE},canonicalize,{_FREE}{_TO_LLVM})"


def tail(threads: int) -> str:
    """The pipeline after a script whose parallel loops run on so many threads; with one they are plain loops."""
    free = _FREE.removeprefix(_HOIST)  # out of a parallel loop, threads would share what is hoisted
    return f"{_WITH_ARENA}{free}{_PARALLEL})".replace("THREADS", str(threads)) if threads > 1 else TAIL


def threads_of(pipeline: str) -> int:
    """Threads that a pipeline's parallel loops run on; 1 where it has none."""
    found = _THREADS.search(pipeline)
    return max(1, int(found.group(1))) if found else 1


def compilation(threads: int) -> str:
    """Whatever decides, besides its script, which program a candidate becomes: part of every trial's identity."""
    return "\n".join((tail(threads), *rewrites_on(threads)))


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
    unit.threads = threads_of(pipeline)
    if plans_arena(pipeline):
        ARENA.apply(unit)
    for part in PARTS:
        if part.behind == ARENA.name and part.needed(unit):
            part.apply(unit)
    if unit.buffers is not None:
        rest = pipeline.removeprefix(_WITH_ARENA)
        if not unit.buffers.others:
            rest = rest.removeprefix(_HOIST).removeprefix(_FREE.removeprefix(_HOIST))
        pipeline = "builtin.module(" + rest
    before, ours, after = pipeline.partition(f",{REGIONS_PASS},")
    run_passes(unit.module, f"{before})" if ours else pipeline)
    if ours:
        REGIONS.apply(unit)
        run_passes(unit.module, f"builtin.module({after}")
    return unit.buffers
