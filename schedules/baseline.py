"""The classic pass pipelines that schedules are measured against.

Both free what they allocate: the chapter's pipelines do not, and a loop of calls would then time the page faults
of a leak instead of the code.
"""

from autotune.core.plugs.family import Baseline

# Buffers that a loop carries unchanged must go before deallocation, which would write i1 flags for them.
BUFFERIZE = (
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},"
    "canonicalize"
)
FREE = (
    "ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations"
)
TO_LLVM = (
    "expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,"
    "convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
    "convert-ub-to-llvm,canonicalize,cse,reconcile-unrealized-casts"
)

# linalg straight to loops
LOOPS = Baseline(
    "loops",
    f"builtin.module({BUFFERIZE},{FREE},convert-linalg-to-loops,{TO_LLVM})",
    summary="Linalg to scalar loops, left to LLVM's vectorizers.",
)

# What a careful user of passes alone would write; speed-ups are quoted against it.
PASSES = Baseline(
    "passes",
    "builtin.module("
    "func.func(linalg-generalize-named-ops),canonicalize,func.func(linalg-fuse-elementwise-ops),canonicalize,"
    f"eliminate-empty-tensors,{BUFFERIZE},{FREE},"
    f"convert-linalg-to-loops,canonicalize,loop-invariant-code-motion,{TO_LLVM})",
    summary="Element-wise fusion, loops, loop-invariant code motion, LLVM's vectorizers: the default of --baseline.",
)
