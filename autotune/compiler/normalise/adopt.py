"""Adopting: a module as others write it becomes one that a payload may be."""

from collections.abc import Callable

from mlir import ir

from autotune.compiler.normalise.shapes.slices import cut_negative_pads
from autotune.compiler.normalise.types.asserts import drop_asserts
from autotune.compiler.normalise.types.booleans import store_booleans_as_bytes
from autotune.compiler.normalise.types.halves import compute_in_singles
from autotune.compiler.normalise.types.intrinsics import replace_intrinsics
from autotune.compiler.normalise.types.plain_math import write_plainly
from autotune.compiler.normalise.types.tensors import take_memrefs


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
        write_plainly(module),
        compute_in_singles(module),
        cut_negative_pads(module),
    ]
    return any(changed)
