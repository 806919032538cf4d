"""Foralls: ``scf.forall`` on buffers, as the threads of a program run it.

On one thread they become loops one in another, before buffers get offsets. On several the outermost stay, to be shared
out among threads, and what is inside becomes loops: a thread that computes one piece asks no other for help.
"""

from mlir import ir

from autotune.compiler.ir.module import every_name, every_op, run_passes
from autotune.compiler.ir.scripts import run_script
from autotune.compiler.passes.lifetimes import FORALL, PARALLEL
from autotune.compiler.passes.marked_loops import parents

NESTED = "autotune.nested"  # on foralls inside of others: how many loops one becomes


def serialise_foralls(module: ir.Module) -> None:
    """Turn every ``scf.forall`` into ``scf.for``, in place; a module without any stays as it is.

    Raises:
        CompileError: Stage ``lower``; upstream's pass refuses one.
    """
    run_passes(module, "builtin.module(scf-forall-to-for)")


def serialise_nested(module: ir.Module) -> None:
    """Turn every ``scf.forall`` inside of another into ``scf.for``, in place, the innermost first."""
    ranks = mark_nested(module)
    if not ranks:
        return
    one, sequence = "!transform.any_op", []
    for rank in sorted(ranks):
        kinds = ", ".join([one] * rank)
        sequence.append(
            f"%found_{rank} = transform.structured.match attributes{{{NESTED} = {rank} : i64}} in %module "
            f": ({one}) -> {one}\n"
            f"transform.foreach %found_{rank} : {one} {{\n^bb0(%op: {one}):\n"
            f"transform.loop.forall_to_for %op : ({one}) -> ({kinds})\n}}"
        )
    run_script(
        module,
        "module attributes {transform.with_named_sequence} {\n"
        f"transform.named_sequence @__transform_main(%module: {one}) {{\n" + "\n".join(sequence) + "\n"
        "transform.yield\n} }",
    )


def mark_nested(module: ir.Module) -> set[int]:
    """Mark the foralls inside of others with their number of loops; gives those numbers."""
    ranks: set[int] = set()
    for op in every_op(module):
        if op.name == FORALL and any(parent.name == FORALL for parent in parents(op)):
            rank = len(ir.DenseI64ArrayAttr(op.attributes["staticLowerBound"]))
            op.attributes[NESTED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), rank)
            ranks.add(rank)
    return ranks


def has_parallel_loops(module: ir.Module) -> bool:
    """Tell whether a module has loops that threads may share: an ``scf.forall``, or an ``scf.parallel``."""
    return not every_name(module).isdisjoint(PARALLEL)
