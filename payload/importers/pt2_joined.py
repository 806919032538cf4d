"""Decompositions of concatenations and splits with empty tensors, which payloads do not support."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, several, or `NotImplemented`: the op is left to the converter


def joined_of_some(tensors: "Sequence[Tensor]", dim: int = 0) -> Result:
    """Decompose ``aten.cat`` to one of the non-empty tensors: a cache is empty before its first token."""
    import torch  # noqa: PLC0415 - comes with an extra
    from torch._prims_common import suggest_memory_format  # noqa: PLC0415

    some = [each for each in tensors if each.numel()]
    if len(some) in {0, len(tensors)} or len({each.dtype for each in tensors}) > 1:
        return NotImplemented
    formats = {suggest_memory_format(each) for each in tensors}
    layout = formats.pop() if len(formats) == 1 else torch.contiguous_format
    if len(some) == 1:
        return some[0].clone(memory_format=layout)
    return torch.cat(some, dim).contiguous(memory_format=layout)


def split_into_some(x: "Tensor", sizes: "Sequence[int]", dim: int = 0) -> Result:
    """Decompose ``aten.split_with_sizes`` where parts have no elements; else it is left to the converter."""
    if all(sizes):
        return NotImplemented
    return [x.narrow(dim, end - size, size) for size, end in zip(sizes, accumulate(sizes), strict=True)]
