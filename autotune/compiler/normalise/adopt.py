"""Adopting: a module as others write it becomes one that a payload may be."""

from collections.abc import Callable

from mlir import ir

from autotune.compiler.normalise.asserts import drop_asserts
from autotune.compiler.normalise.booleans import store_booleans_as_bytes
from autotune.compiler.normalise.halves import compute_in_singles
from autotune.compiler.normalise.intrinsics import replace_intrinsics
from autotune.compiler.normalise.slices import cut_negative_pads
from autotune.compiler.normalise.tensors import take_memrefs


def adopt(module: ir.Module, entry: Callable[[], ir.OpView]) -> bool:
    """Change what no payload may have and every importer writes, in place; tells whether there was any.

    Args:
        module: The module.
        entry: Gives its public function, as it is by then.

    Raises:
        PayloadError: A tensor of the function's signature has no static shape.
    """
    changed = [
        take_memrefs(entry()),
        drop_asserts(module),
        store_booleans_as_bytes(module),
        replace_intrinsics(module),
        compute_in_singles(module),
        cut_negative_pads(module),
    ]
    return any(changed)
