"""Foralls: ``scf.forall`` on buffers becomes loops one in another, as a program of one thread runs it.

They must be loops before buffers get places: an iteration of a parallel loop may run beside another one, so that what
it allocates could not lie in the arena.
"""

from mlir import ir

from autotune.compiler.module import run_passes


def serialise_foralls(module: ir.Module) -> None:
    """Turn every ``scf.forall`` into ``scf.for``, in place; a module without any stays as it is.

    Raises:
        CompileError: Stage ``lower``; upstream's pass refuses one.
    """
    run_passes(module, "builtin.module(scf-forall-to-for)")
