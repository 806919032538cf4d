"""Integer inputs from the example that a program was exported with, for divisors and indices that cannot be random.

A random divisor may be 0, and random indices may write an element of a cache twice, in an undefined order.
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
    """Return the integer inputs of the program's example, by name, except those that are all 0.

    Args:
        program: Program as exported.
        names: Names of its inputs, in order.
        shapes: Shapes of the inputs, by name; an example of another shape is ignored.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    tensors = [each for each in tree_leaves(program.example_inputs) if isinstance(each, torch.Tensor)]
    if len(tensors) != len(names):
        return {}
    examples = {}
    for name, tensor in zip(names, tensors, strict=True):
        whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
        if whole and tuple(tensor.shape) == tuple(shapes[name]) and bool(tensor.any()):
            examples[name] = to_numpy(tensor.detach())
    return examples
