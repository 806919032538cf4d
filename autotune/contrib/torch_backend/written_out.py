"""Ops that are traced as others, of which results are known.

PyTorch promises nothing of memory that nobody has written, and of the order of equal elements: a program that gives
anything there would not agree with what PyTorch happens to give. Attention lies as its kernel gives it. Tensors without
elements are in no program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from payload.importers.pt2_attention import attention
from payload.importers.pt2_joined import joined_of_some

aten = torch.ops.aten
Result = Any  # a tensor, or several


def filled(size: Sequence[int], *, memory_format: torch.memory_format | None = None, **kind: Any) -> Result:  # noqa: ANN401 - as PyTorch has them
    """Zeros in place of ``aten.empty``."""
    zeros = torch.zeros(size, **kind)
    return zeros if memory_format is None else zeros.contiguous(memory_format=memory_format)


def filled_like(x: torch.Tensor, **kind: Any) -> Result:  # noqa: ANN401
    """Zeros in place of ``aten.empty_like``."""
    return torch.zeros_like(x, **kind)


def filled_of(x: torch.Tensor, size: Sequence[int], **kind: Any) -> Result:  # noqa: ANN401
    """Zeros in place of ``aten.new_empty``."""
    return x.new_zeros(size, **kind)


def sorted_stably(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Result:
    """What ``aten.sort`` gives, of equal elements the earlier one first."""
    return torch.sort(x, stable=True, dim=dim, descending=descending)


WRITTEN_OUT: Mapping[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten.cat.default: joined_of_some,
    aten.empty.memory_format: filled,
    aten.empty_like.default: filled_like,
    aten.new_empty.default: filled_of,
    aten.sort.default: sorted_stably,
}
