"""Loops that LLVM leaves rolled: it moves what nothing depends on, as prefetches, to the front of what it unrolls.

Upstream's conversion of loops to branches keeps an annotation of LLVM's, that of branches to the LLVM dialect does not.
"""

from mlir import ir

KEPT = "llvm.loop_annotation"  # of a loop, and of the branch that it becomes
READ = "loop_annotation"  # of a branch in the LLVM dialect
ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"
BRANCHES = {"llvm.br", "llvm.cond_br"}


def keep_rolled(loop: ir.Operation) -> None:
    """Let LLVM neither unroll a loop as a whole nor in part."""
    loop.attributes[KEPT] = ir.Attribute.parse(ROLLED)


def tell_llvm(module: ir.Module) -> None:
    """Let branches have the annotations of the loops that they were."""
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                last = block.operations[len(block.operations) - 1].operation
                if last.name in BRANCHES and KEPT in last.attributes:
                    last.attributes[READ] = last.attributes[KEPT]
                    del last.attributes[KEPT]
