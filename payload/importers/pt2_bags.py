"""Decompose PyTorch's embedding bags: rows of a table, reduced per bag.

The bag of an index is the number of offsets up to its position; rows are reduced by a scatter to their bags.
"""

from typing import TYPE_CHECKING, Any

from payload.importers.pt2_indices import along, scatter_reduce
from payload.importers.pt2_order import numbers_before

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # several tensors, or `NotImplemented` if the op is left to the converter
MODES = ("sum", "mean", "amax")


def embedding_bag(  # noqa: PLR0917 - as PyTorch has them
    weight: "Tensor",
    indices: "Tensor",
    offsets: "Tensor",
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: "Tensor | None" = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Result:
    """Decompose ``aten._embedding_bag_forward_only``; results that only the backward pass reads are zeros.

    Args:
        weight: The table, (rows, width).
        indices: Row numbers, bag after bag.
        offsets: Position in `indices` at which each bag begins.
        scale_grad_by_freq: Affects gradients only.
        mode: Reduction, a position in `MODES`.
        sparse: Affects gradients only.
        per_sample_weights: Factor of each row.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: Row number that is not added to any bag; none if negative.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.shape[0]
    if not bags or not indices.numel():
        return NotImplemented
    bag = numbers_before(starts, torch.arange(indices.shape[0], dtype=starts.dtype), right=True)
    if bag is NotImplemented:
        return NotImplemented
    rows = torch.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is not None and padding_idx >= 0:
        bag = torch.where(indices == padding_idx, 0, bag)
    reduced = weight.new_zeros(bags + 1, weight.shape[1])  # the first one receives rows that are in no bag
    reduced = scatter_reduce(reduced, 0, along(bag, 0, rows), rows, MODES[mode], include_self=False)
    if reduced is NotImplemented:
        return NotImplemented
    unread = torch.zeros_like(offsets)
    return reduced[1:], torch.zeros_like(indices), unread, unread
