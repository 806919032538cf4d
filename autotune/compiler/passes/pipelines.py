"""Textual pass pipelines from the output of a script, or from linalg, to the LLVM dialect."""

import re

from autotune.compiler.tasks.carried import BUFFERIZE

# Built-in passes, not MLIR's: a pipeline may begin with the first, and contain the second.
ARENA_PASS, REGIONS_PASS = "autotune-arena", "autotune-regions"
WITH_ARENA = f"builtin.module({ARENA_PASS},"
_THREADS = re.compile(r"num-threads=(\d{1,4})\b")

# Deallocation of buffers.
HOIST = "func.func(buffer-hoisting,buffer-loop-hoisting),"
FREE = (
    f"{HOIST}ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,"
)

# Lowering of remaining linalg ops to loops.
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
# Lowering to the LLVM dialect.
_TO_LLVM = (
    f"{_TO_LOOPS}convert-scf-to-cf,{_ARITHMETIC}finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,{_LAST}"
)
# The same with parallel loops. Their allocas must be lowered before loops become branches, as memref.alloca_scope takes
# a single block. The last OpenMP ops have legal operands only after memrefs and functions are lowered.
_PARALLEL = (
    f"{_TO_LOOPS}scf-forall-to-parallel,convert-scf-to-openmp{{num-threads=THREADS}},{REGIONS_PASS},"
    "finalize-memref-to-llvm,"
    f"convert-scf-to-cf,{_ARITHMETIC}"
    f"finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-openmp-to-llvm,{_LAST}"
)

# Pipeline after a script.
TAIL = f"{WITH_ARENA}{FREE}{_TO_LLVM})"

# Pipeline from linalg directly to loops, without a schedule: the oracle of payloads without their own.
PLAIN = f"builtin.module({BUFFERIZE},canonicalize,{FREE}{_TO_LLVM})"


def tail(threads: int) -> str:
    """Return the pipeline after a script for a number of threads; with one thread, there are no parallel loops."""
    free = FREE.removeprefix(HOIST)  # a buffer hoisted out of a parallel loop would be shared by threads
    return f"{WITH_ARENA}{free}{_PARALLEL})".replace("THREADS", str(threads)) if threads > 1 else TAIL


def threads_of(pipeline: str) -> int:
    """Return the number of threads of a pipeline's parallel loops; 1 if it has none."""
    match = _THREADS.search(pipeline)
    return max(1, int(match.group(1))) if match else 1


def plans_arena(pipeline: str) -> bool:
    """Return whether a pipeline begins with `ARENA_PASS`."""
    return pipeline.startswith(WITH_ARENA)
