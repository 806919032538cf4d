"""Disable LLVM's unrolling of loops: it would move independent ops, such as prefetches, to the front of the body.

Upstream's conversion of loops to branches keeps LLVM's loop annotation; that of branches to the LLVM dialect does not.
"""

from mlir import ir

ANNOTATION = "llvm.loop_annotation"  # attribute of a loop, and of the branch that it is lowered to
READ = "loop_annotation"  # attribute of a branch in the LLVM dialect
ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"
BRANCHES = {"llvm.br", "llvm.cond_br"}


def keep_rolled(loop: ir.Operation) -> None:
    """Disable full and partial unrolling of a loop."""
    loop.attributes[ANNOTATION] = ir.Attribute.parse(ROLLED)


def tell_llvm(module: ir.Module) -> None:
    """Copy loop annotations to the attribute that branches in the LLVM dialect have for them."""
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                terminator = block.operations[len(block.operations) - 1].operation
                if terminator.name in BRANCHES and ANNOTATION in terminator.attributes:
                    terminator.attributes[READ] = terminator.attributes[ANNOTATION]
                    del terminator.attributes[ANNOTATION]
