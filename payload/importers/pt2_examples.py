"""Whole numbers of the example that a program was exported with: what divides, or is an index, cannot be random.

A random divisor may be 0, and elements of a cache at random indices are written twice, in an order that nobody defines.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.core.payload import Array
from payload.importers.pt2_values import to_numpy

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def whole_examples(
    program: "ExportedProgram", names: Sequence[str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, Array]:
    """Inputs of whole numbers that the program's example has, by name, unless all of one are 0.

    Args:
        program: The program, as the file holds it.
        names: Names of its inputs, in order.
        shapes: Shape of each, by name; an example of another shape is none.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    given = [each for each in tree_leaves(program.example_inputs) if isinstance(each, torch.Tensor)]
    if len(given) != len(names):
        return {}
    found = {}
    for name, tensor in zip(names, given, strict=True):
        whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
        if whole and tuple(tensor.shape) == tuple(shapes[name]) and bool(tensor.any()):
            found[name] = to_numpy(tensor.detach())
    return found
