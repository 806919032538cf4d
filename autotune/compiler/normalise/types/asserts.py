"""Assertions that an importer leaves in its text: they are no part of what is computed."""

from mlir import ir

from autotune.compiler.ir.module import every_op, run_passes

ASSERT = "cf.assert"


def drop_asserts(module: ir.Module) -> bool:
    """Erase every ``cf.assert``, and what was computed for it alone, in place; tells whether there was any."""
    found = [op for op in every_op(module) if op.name == ASSERT]
    for op in found:
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(found)
