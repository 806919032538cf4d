"""Intrinsics of LLVM that only compute, as upstream's examples have them, become the ops of ``arith`` and ``math``.

They mean the same (https://mlir.llvm.org/docs/Dialects/LLVM/), and what vectorizes and lowers knows the latter.
"""

from mlir import ir

from autotune.compiler.ir.module import every_op

INTRINSICS = {
    "llvm.intr.maxnum": "arith.maxnumf",
    "llvm.intr.minnum": "arith.minnumf",
    "llvm.intr.maximum": "arith.maximumf",
    "llvm.intr.minimum": "arith.minimumf",
    "llvm.intr.fma": "math.fma",
    "llvm.intr.fabs": "math.absf",
    "llvm.intr.sqrt": "math.sqrt",
    "llvm.intr.exp": "math.exp",
    "llvm.intr.exp2": "math.exp2",
    "llvm.intr.log": "math.log",
    "llvm.intr.log2": "math.log2",
    "llvm.intr.pow": "math.powf",
    "llvm.intr.sin": "math.sin",
    "llvm.intr.cos": "math.cos",
    "llvm.intr.floor": "math.floor",
    "llvm.intr.ceil": "math.ceil",
    "llvm.intr.copysign": "math.copysign",
    "llvm.intr.smax": "arith.maxsi",
    "llvm.intr.smin": "arith.minsi",
    "llvm.intr.umax": "arith.maxui",
    "llvm.intr.umin": "arith.minui",
}


def replace_intrinsics(module: ir.Module) -> bool:
    """Replace every intrinsic that has such an op, in place; tells whether there was any."""
    found = [op for op in every_op(module) if op.name in INTRINSICS]
    for op in found:
        kinds = [result.type for result in op.results]
        with ir.InsertionPoint(op), op.location:
            made = ir.Operation.create(INTRINSICS[op.name], kinds, list(op.operands))
        op.results[0].replace_all_uses_with(made.results[0])
        op.erase()
    return bool(found)
