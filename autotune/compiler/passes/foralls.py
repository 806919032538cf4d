"""Lower ``scf.forall`` on buffers for the number of threads of a program.

With one thread, they become nested ``scf.for`` before buffers get offsets. With several, the outermost stay parallel,
and those nested in others become ``scf.for``: there is no nested parallelism.
"""

from mlir import ir

from autotune.compiler.ir.module import every_name, every_op, run_passes
from autotune.compiler.ir.scripts import run_script
from autotune.compiler.passes.lifetimes import FORALL, PARALLEL
from autotune.compiler.passes.marked_loops import parents

NESTED = "autotune.nested"  # number of loops of a nested forall


def serialise_foralls(module: ir.Module) -> None:
    """Lower every ``scf.forall`` to ``scf.for``, in place.

    Raises:
        CompileError: Stage ``lower``; upstream's pass fails.
    """
    run_passes(module, "builtin.module(scf-forall-to-for)")


def serialise_nested(module: ir.Module) -> None:
    """Lower every ``scf.forall`` nested in another to ``scf.for``, in place."""
    ranks = mark_nested(module)
    if not ranks:
        return
    handle, sequence = "!transform.any_op", []
    for rank in sorted(ranks):
        handles = ", ".join([handle] * rank)
        sequence.append(
            f"%found_{rank} = transform.structured.match attributes{{{NESTED} = {rank} : i64}} in %module "
            f": ({handle}) -> {handle}\n"
            f"transform.foreach %found_{rank} : {handle} {{\n^bb0(%op: {handle}):\n"
            f"transform.loop.forall_to_for %op : ({handle}) -> ({handles})\n}}"
        )
    run_script(
        module,
        "module attributes {transform.with_named_sequence} {\n"
        f"transform.named_sequence @__transform_main(%module: {handle}) {{\n" + "\n".join(sequence) + "\n"
        "transform.yield\n} }",
    )


def mark_nested(module: ir.Module) -> set[int]:
    """Mark nested foralls with their number of loops; return the distinct numbers."""
    ranks: set[int] = set()
    for op in every_op(module):
        if op.name == FORALL and any(parent.name == FORALL for parent in parents(op)):
            rank = len(ir.DenseI64ArrayAttr(op.attributes["staticLowerBound"]))
            op.attributes[NESTED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), rank)
            ranks.add(rank)
    return ranks


def has_parallel_loops(module: ir.Module) -> bool:
    """Return whether a module has parallel loops: ``scf.forall``, ``scf.parallel`` or ``affine.parallel``."""
    return not every_name(module).isdisjoint(PARALLEL)
