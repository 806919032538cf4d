"""Pass pipelines from what a script leaves, or from linalg, to the LLVM dialect, as text."""

import re

from autotune.compiler.tasks.carried import BUFFERIZE

# Passes of ours, not of MLIR: a pipeline may begin with the first, and have the second between others.
ARENA_PASS, REGIONS_PASS = "autotune-arena", "autotune-regions"
WITH_ARENA = f"builtin.module({ARENA_PASS},"
_THREADS = re.compile(r"num-threads=(\d{1,4})\b")

# Allocated buffers get an owner and are freed.
HOIST = "func.func(buffer-hoisting,buffer-loop-hoisting),"
FREE = (
    f"{HOIST}ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
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
TAIL = f"{WITH_ARENA}{FREE}{_TO_LLVM})"

# Linalg straight to loops, no schedule: the oracle of payloads that bring none of their own.
PLAIN = f"builtin.module({BUFFERIZE},canonicalize,{FREE}{_TO_LLVM})"


def tail(threads: int) -> str:
    """The pipeline after a script whose parallel loops run on so many threads; with one they are plain loops."""
    free = FREE.removeprefix(HOIST)  # out of a parallel loop, threads would share what is hoisted
    return f"{WITH_ARENA}{free}{_PARALLEL})".replace("THREADS", str(threads)) if threads > 1 else TAIL


def threads_of(pipeline: str) -> int:
    """Threads that a pipeline's parallel loops run on; 1 where it has none."""
    found = _THREADS.search(pipeline)
    return max(1, int(found.group(1))) if found else 1


def plans_arena(pipeline: str) -> bool:
    """Tell whether a pipeline begins with `ARENA_PASS`."""
    return pipeline.startswith(WITH_ARENA)
