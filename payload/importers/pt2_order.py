"""Decompose order statistics of PyTorch: medians, `kthvalue`, cumulative extrema, `searchsorted`.

    cummax: y[k] = max over i <= k of x[i], by comparing all pairs
    searchsorted: binary search, as in PyTorch, so that results agree even if the boundaries are not sorted

Among equal elements the first index is returned, where PyTorch may return any; cumulative extrema return the last, as
PyTorch does.
"""

from math import inf
from typing import TYPE_CHECKING, Any

from payload.importers.onnx_indices import MOST_PAIRS
from payload.importers.pt2_indices import as_contiguous, first_ranks, limits

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, several, or `NotImplemented` if the op is left to the converter


def running_most(x: "Tensor", dim: int) -> Result:
    """Decompose ``aten.cummax``."""
    return running(x, dim, largest=True)


def running_least(x: "Tensor", dim: int) -> Result:
    """Decompose ``aten.cummin``."""
    return running(x, dim, largest=False)


def running(x: "Tensor", dim: int, *, largest: bool) -> Result:
    """Return cumulative extrema along a dimension, and the last index of each."""
    import torch  # noqa: PLC0415 - comes with an extra

    if not x.dim() or not x.numel() or x.dtype == torch.bool or x.numel() * x.shape[dim] > MOST_PAIRS:
        return NotImplemented
    rows = x.movedim(dim, -1)
    positions = torch.arange(rows.shape[-1], dtype=torch.float32)
    until = positions <= positions.unsqueeze(-1)
    low, high = limits(x)
    ahead = torch.where(until, rows.unsqueeze(-2), low if largest else high)
    values = ahead.amax(-1) if largest else ahead.amin(-1)
    same = rows.unsqueeze(-2) == values.unsqueeze(-1)
    if x.is_floating_point():
        same = same | (is_nan(rows).unsqueeze(-2) & is_nan(values).unsqueeze(-1))
    indices = torch.where(same & until, positions, -1.0).amax(-1).to(torch.int64)
    return as_contiguous((values.movedim(-1, dim), indices.movedim(-1, dim)))


def is_nan(x: "Tensor") -> "Tensor":
    """Return element by element whether it is NaN."""
    return ~(x <= inf)


def kth_least(x: "Tensor", k: int, dim: int = -1, keepdim: bool = False) -> Result:
    """Decompose ``aten.kthvalue``."""
    ranked = first_ranks(x, k, dim, largest=False)
    return ranked if ranked is NotImplemented else with_index(ranked[0].narrow(dim, k - 1, 1), x, dim, keepdim)


def with_index(values: "Tensor", x: "Tensor", dim: int, keepdim: bool) -> "tuple[Tensor, Tensor]":
    """Return elements selected along a dimension, with the index of the first element of x that equals each.

    Args:
        values: Selected elements; size 1 along the dimension.
        x: Tensor that they were selected from.
        dim: The dimension.
        keepdim: Whether the results keep the dimension.
    """
    import torch  # noqa: PLC0415

    same = x == values
    if x.is_floating_point():
        same = same | (is_nan(x) & is_nan(values))
    size = x.shape[dim]
    positions = torch.arange(size, dtype=torch.float32).reshape(-1, *[1] * (x.dim() - 1 - dim % x.dim()))
    indices = torch.where(same, positions, float(size)).amin(dim, keepdim=True).to(torch.int64)
    pair = (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
    return pair[0].contiguous(), pair[1].contiguous()


def median_along(x: "Tensor", dim: int, keepdim: bool = False) -> Result:
    """Decompose ``aten.median.dim``: the lower of two middle elements; NaN if an element is NaN."""
    import torch  # noqa: PLC0415

    if not x.dim() or not x.numel():
        return NotImplemented
    middle = kth_least(x, (x.shape[dim] + 1) // 2, dim, keepdim=True)
    if middle is NotImplemented:
        return NotImplemented
    values = torch.where(is_nan(x).any(dim, True), torch.nan, middle[0]) if x.is_floating_point() else middle[0]
    return with_index(values, x, dim, keepdim)


def median(x: "Tensor") -> Result:
    """Decompose ``aten.median``, over all elements."""
    pair = median_along(x.reshape(-1), 0)
    return pair if pair is NotImplemented else pair[0]


def median_of_numbers_along(x: "Tensor", dim: int, keepdim: bool = False) -> Result:
    """Decompose ``aten.nanmedian.dim``: the median of the elements that are not NaN; NaN if there are none."""
    import torch  # noqa: PLC0415

    if not x.dim() or not x.numel() or not x.is_floating_point():
        return median_along(x, dim, keepdim)
    ranked = first_ranks(x, x.shape[dim], dim, largest=False)  # NaN is sorted last
    if ranked is NotImplemented:
        return NotImplemented
    numbers = (x <= inf).to(torch.float32).sum(dim, keepdim=True)
    middle = torch.floor((numbers - 1) / 2).clamp(min=0).movedim(dim, -1)
    hit = torch.arange(x.shape[dim], dtype=torch.float32) == middle
    values = torch.where(hit, ranked[0].movedim(dim, -1), 0).sum(-1, keepdim=True).to(x.dtype)
    return with_index(values.movedim(-1, dim), x, dim, keepdim)


def median_of_numbers(x: "Tensor") -> Result:
    """Decompose ``aten.nanmedian``, over all elements."""
    pair = median_of_numbers_along(x.reshape(-1), 0)
    return pair if pair is NotImplemented else pair[0]


def numbers_before(
    boundaries: "Tensor",
    values: "Tensor | float",
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: "Tensor | None" = None,
) -> Result:
    """Decompose ``aten.searchsorted``: for each value, the number of boundaries before it.

    Args:
        boundaries: Boundaries, sorted along the last dimension: a row for each row of values, or one for all.
        values: The values, a tensor or a number.
        out_int32: Whether the result is i32 instead of i64.
        right: Whether boundaries that equal a value count as before it.
        side: ``"right"`` for the same as `right`.
        sorter: Permutation that sorts the boundaries; left to the converter.
    """
    import torch  # noqa: PLC0415

    shape = tuple(values.shape) if isinstance(values, torch.Tensor) else ()
    if sorter is not None or not boundaries.numel() or 0 in shape:
        return NotImplemented
    wanted = values if isinstance(values, torch.Tensor) else torch.full((), values, dtype=boundaries.dtype)
    wanted = wanted.reshape(-1) if boundaries.dim() == 1 else wanted
    count = boundaries.shape[-1]
    start, end = (torch.full(tuple(wanted.shape), at, dtype=torch.int64) for at in (0, count))
    for _ in range(count.bit_length()):
        middle = (start + end) >> 1
        boundary = torch.gather(boundaries, -1, middle.clamp(max=count - 1))
        behind = boundary > wanted if right or side == "right" else boundary >= wanted
        start, end = torch.where(~behind & (start < end), middle + 1, start), torch.where(behind, middle, end)
    return start.reshape(shape).to(torch.int32 if out_int32 else torch.int64)


def bucket_numbers(
    values: "Tensor | float", boundaries: "Tensor", *, out_int32: bool = False, right: bool = False
) -> Result:
    """Decompose ``aten.bucketize``: `numbers_before` with one row of boundaries."""
    return numbers_before(boundaries, values, out_int32=out_int32, right=right)
