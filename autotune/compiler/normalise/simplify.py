"""Simplifying: a payload's module in the form that groups and families know; the oracle stays with the text before."""

from mlir import ir

from autotune.compiler.normalise.channels_last import turn_channels_last
from autotune.compiler.normalise.narrow import narrow_floats
from autotune.compiler.normalise.powers import multiply_powers
from autotune.compiler.normalise.shared_matrices import share_matrices
from autotune.compiler.normalise.transposes import read_in_place
from autotune.compiler.normalise.unit_dimensions import drop_unit_dimensions

SIMPLIFY = (multiply_powers, narrow_floats, turn_channels_last, share_matrices, drop_unit_dimensions, read_in_place)


def simplify(module: ir.Module) -> None:
    """Apply every rewrite to a payload's module, in place; what is in that form already stays as it is.

    Raises:
        CompileError: A rewrite leaves a module that breaks a law of its ops.
    """
    for rewrite in SIMPLIFY:
        rewrite(module)
