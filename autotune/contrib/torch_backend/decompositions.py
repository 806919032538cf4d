"""Decompositions that PyTorch applies while it functionalizes a graph, of ops with unspecified results and others.

PyTorch leaves the contents of uninitialized memory and the order of equal elements unspecified, so that results of a
program would differ from its own. Attention returns the memory layout of PyTorch's kernel. Concatenations skip tensors
without elements, which programs do not support.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from payload.importers.pt2_attention import attention
from payload.importers.pt2_joined import joined_of_some

aten = torch.ops.aten
Result = Any  # a tensor, or several


def zeros_of_size(size: Sequence[int], *, memory_format: torch.memory_format | None = None, **options: Any) -> Result:  # noqa: ANN401 - types of PyTorch
    """Return zeros instead of ``aten.empty``."""
    zeros = torch.zeros(size, **options)
    return zeros if memory_format is None else zeros.contiguous(memory_format=memory_format)


def zeros_like(x: torch.Tensor, **options: Any) -> Result:  # noqa: ANN401
    """Return zeros instead of ``aten.empty_like``."""
    return torch.zeros_like(x, **options)


def new_zeros(x: torch.Tensor, size: Sequence[int], **options: Any) -> Result:  # noqa: ANN401
    """Return zeros instead of ``aten.new_empty``."""
    return x.new_zeros(size, **options)


def sorted_stably(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Result:
    """Return the result of a stable ``aten.sort``."""
    return torch.sort(x, stable=True, dim=dim, descending=descending)


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten.cat.default: joined_of_some,
    aten.empty.memory_format: zeros_of_size,
    aten.empty_like.default: zeros_like,
    aten.new_empty.default: new_zeros,
    aten.sort.default: sorted_stably,
}
