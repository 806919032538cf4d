"""Decompositions of PyTorch's sorting and scattering ops, which linalg lacks, into comparisons of all pairs.

    rank of x[i] = number of x[j] before it;  y[k] = sum of x[i] where rank i is k
    y[r] = sum of u[m] where index m is r, or the last such u[m] alone, or x[r] where there is none

The work is quadratic, as in `payload.importers.onnx_indices`, which is cheap at the sizes that models sort and scatter.
Larger ops are left to the converter, which rejects them.
"""

from collections.abc import Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any

from payload.importers.onnx_indices import MOST_PAIRS

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, several tensors, or `NotImplemented` where the op is left to the converter


def topk(x: "Tensor", k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Result:
    """Decompose ``aten.topk``: the first `k` elements along a dimension in order, and their indices."""
    return as_contiguous(first_ranks(x, k, dim, largest=largest))


def sort(x: "Tensor", dim: int = -1, descending: bool = False) -> Result:
    """Decompose ``aten.sort``; the sort is stable."""
    results = first_ranks(x, x.shape[dim] if x.dim() else 1, dim, largest=descending)
    return results if results is NotImplemented else tuple(lying_as(each, x) for each in results)


def sort_stably(x: "Tensor", *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Result:
    """Decompose ``aten.sort.stable``."""
    return sort(x, dim, descending)


def first_ranks(x: "Tensor", count: int, dim: int, *, largest: bool) -> Result:
    """Return the first `count` elements along a dimension in order, and their indices; NaN is the largest element."""
    import torch  # noqa: PLC0415 - comes with an extra

    if not x.dim() or not x.numel() or x.numel() * x.shape[dim] > MOST_PAIRS:
        return NotImplemented
    rows = x.movedim(dim, -1)
    size = rows.shape[-1]
    current, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    before, same = (other > current if largest else other < current), other == current
    if x.is_floating_point():
        is_number = rows <= inf
        mine, theirs = is_number.unsqueeze(-1), is_number.unsqueeze(-2)
        before = before | (mine & ~theirs if largest else theirs & ~mine)
        same = same | ~(mine | theirs)
    positions = torch.arange(size, dtype=torch.float32)
    earlier = positions < positions.unsqueeze(-1)
    rank = (before | (same & earlier)).to(torch.float32).sum(-1)
    hit = rank.unsqueeze(-2) == torch.arange(count, dtype=torch.float32).unsqueeze(-1)
    values = torch.where(hit, other, 0).sum(-1).to(x.dtype)
    indices = torch.where(hit, positions, 0.0).sum(-1).to(torch.int64)
    return values.movedim(-1, dim), indices.movedim(-1, dim)


def as_contiguous(result: Result) -> Result:
    """Make several tensors contiguous."""
    return result if result is NotImplemented else tuple(each.contiguous() for each in result)


def lying_as(result: Result, x: "Tensor") -> Result:
    """Give a result the memory order of the dimensions of ``x``, as in PyTorch, where views may depend on it."""
    if result is NotImplemented:
        return result
    order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
    return result.permute(order).contiguous().permute([order.index(dim) for dim in range(x.dim())])


def scatter_add(x: "Tensor", dim: int, index: "Tensor", src: "Tensor") -> Result:
    """Decompose ``aten.scatter_add``."""
    return put(x, dim, index, src, "sum")


def scatter(x: "Tensor", dim: int, index: "Tensor", src: "Tensor") -> Result:
    """Decompose ``aten.scatter.src``; of several elements at one index, the last is kept (undefined in PyTorch)."""
    return put(x, dim, index, src, "")


def scatter_value(x: "Tensor", dim: int, index: "Tensor", value: float) -> Result:
    """Decompose ``aten.scatter.value``."""
    import torch  # noqa: PLC0415

    return put(x, dim, index, torch.full(tuple(index.shape), value, dtype=x.dtype), "one")


def scatter_reduce(
    x: "Tensor", dim: int, index: "Tensor", src: "Tensor", reduce: str, *, include_self: bool = True
) -> Result:
    """Decompose ``aten.scatter_reduce``; means of integers are rounded down."""
    import torch  # noqa: PLC0415

    if include_self and reduce != "mean":
        return put(x, dim, index, src, reduce)
    ones = torch.ones_like(index, dtype=torch.float32)
    count = put(torch.zeros_like(x, dtype=torch.float32), dim, index, ones, "sum")
    if count is NotImplemented:
        return NotImplemented
    low, high = limits(x)
    start = x if include_self else torch.where(count > 0, {"amax": low, "amin": high, "prod": 1}.get(reduce, 0), x)
    reduced = put(start, dim, index, src, "sum" if reduce == "mean" else reduce)
    if reduce != "mean":
        return reduced
    count = (count + 1 if include_self else count.clamp(min=1)).to(x.dtype)
    return reduced / count if x.is_floating_point() else torch.div(reduced, count, rounding_mode="floor")


def index_reduce(
    x: "Tensor", dim: int, index: "Tensor", source: "Tensor", reduce: str, *, include_self: bool = True
) -> Result:
    """Decompose ``aten.index_reduce``."""
    if not x.dim():
        return NotImplemented
    return scatter_reduce(x, dim, along(index, dim, source), source, reduce, include_self=include_self)


def limits(x: "Tensor") -> tuple[float, float]:
    """Return a lower and an upper bound of all values of a tensor's element type."""
    import torch  # noqa: PLC0415

    whole = None if x.is_floating_point() else torch.iinfo(x.dtype)
    return (whole.min, whole.max) if whole else (-inf, inf)


def histogram(x: "Tensor", bins: int = 100, min: float = 0, max: float = 0) -> Result:
    """Decompose ``aten.histc`` with explicit bounds; the last bin includes the upper bound."""
    import torch  # noqa: PLC0415

    if not min < max or x.numel() * bins > MOST_PAIRS:
        return NotImplemented
    values, low, high = x.reshape(-1), torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    bin_number = torch.floor((values - low) * bins / (high - low)).clamp(max=bins - 1)
    inside = (values >= low) & (values <= high)
    hit = inside & (bin_number == torch.arange(bins, dtype=bin_number.dtype).unsqueeze(-1))
    return hit.to(torch.float32).sum(-1).to(x.dtype)


def index_add(x: "Tensor", dim: int, index: "Tensor", source: "Tensor", *, alpha: float = 1) -> Result:
    """Decompose ``aten.index_add``."""
    if not x.dim():
        return NotImplemented
    return put(x, dim, along(index, dim, source), source if alpha == 1 else source * alpha, "sum")


def index_put(
    x: "Tensor",
    indices: Sequence["Tensor | None"],
    values: "Tensor",
    accumulate: bool = False,
) -> Result:
    """Decompose ``aten.index_put`` with index tensors, or with one mask.

    Negative indices count from the end. If the indexed dimensions are not adjacent, the dimensions of the indices come
    first in the values.
    """
    import torch  # noqa: PLC0415

    indexed_dims = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(indexed_dims) == 1 and indexed_dims[0][1].dtype == torch.bool:
        return lying_as(mask_put(x, *indexed_dims[0], values, accumulate=accumulate), x)
    first, last = indexed_dims[0][0], indexed_dims[-1][0]
    given_indices = [index for _, index in indexed_dims]
    if any(each.dtype.is_floating_point or each.element_size() == 1 for each in given_indices):
        return NotImplemented
    if not x.numel():
        return NotImplemented
    if last - first + 1 != len(indexed_dims):
        order = sorted(range(x.dim()), key=lambda dim: (dim not in dict(indexed_dims), dim))
        result = index_put(x.permute(order), given_indices, values, accumulate)
        return result if result is NotImplemented else result.permute([order.index(dim) for dim in range(x.dim())])
    before, indexed, behind = x.shape[:first], x.shape[first : last + 1], x.shape[last + 1 :]
    flat_index = torch.zeros((), dtype=torch.int64)
    for size, index in zip(indexed, given_indices, strict=True):
        flat_index = flat_index * size + torch.where(index < 0, index + size, index)
    whole = values.expand(*before, *flat_index.shape, *behind).reshape(*before, flat_index.numel(), *behind)
    rows = x.reshape(*before, prod(indexed), *behind)
    result = put(rows, first, along(flat_index, first, whole), whole, "sum" if accumulate else "")
    return result if result is NotImplemented else lying_as(result.reshape(x.shape), x)


def mask_put(x: "Tensor", dim: int, mask: "Tensor", values: "Tensor", *, accumulate: bool) -> Result:
    """Decompose ``aten.index_put`` with a mask and values that do not vary along the masked dimensions.

    Args:
        x: Tensor to update.
        dim: First dimension that the mask covers.
        mask: Boolean mask.
        values: New values, which may vary along the dimensions that the mask does not cover.
        accumulate: Whether values are added to `x` instead of replacing it.
    """
    import torch  # noqa: PLC0415

    behind = x.dim() - dim - mask.dim()
    if values.dim() > behind:  # the dimension before the trailing ones enumerates the mask's true elements
        at = values.dim() - behind - 1
        if values.shape[at] != 1:
            return NotImplemented
        values = values.reshape(*values.shape[:at], *[1] * mask.dim(), *values.shape[at + 1 :])
    hit = mask.reshape(*mask.shape, *[1] * behind)
    return torch.where(hit, x + values if accumulate else values, x)


def along(index: "Tensor", dim: int, values: "Tensor") -> "Tensor":
    """Broadcast indices along a dimension to the shape of the values."""
    shape = [1] * values.dim()
    shape[dim] = index.numel()
    return index.reshape(shape).expand(tuple(values.shape))


def put(x: "Tensor", dim: int, index: "Tensor", src: "Tensor", how: str) -> Result:
    """Scatter elements to indices along a dimension, replacing or reducing into `x`.

    Args:
        x: Tensor to update.
        dim: Indexed dimension.
        index: Index of each element; other dimensions may be shorter than those of `x`, and cover its first elements.
        src: Elements to scatter; at least as many as indices along each dimension.
        how: Reduction ``sum``, ``prod``, ``amax`` or ``amin``; ``one`` if all elements are equal; empty to keep the
            last element of each index.
    """
    import torch  # noqa: PLC0415

    if not x.dim() or not index.numel() or prod(index.shape) * x.shape[dim] > MOST_PAIRS:
        return NotImplemented
    dim %= x.dim()
    covered, rests = x, []
    for d in range(x.dim()):
        src = src.narrow(d, 0, index.shape[d])
        if d != dim and index.shape[d] < x.shape[d]:
            rests.append((d, covered.narrow(d, index.shape[d], x.shape[d] - index.shape[d])))
            covered = covered.narrow(d, 0, index.shape[d])
    rows, indices, values = (each.movedim(dim, -1) for each in (covered, index, src))
    targets = torch.arange(rows.shape[-1], dtype=torch.float32).unsqueeze(-1)
    hit = indices.to(torch.float32).unsqueeze(-2) == targets
    result = combined(rows, hit, values.to(x.dtype).unsqueeze(-2), how).movedim(-1, dim)
    for d, rest in reversed(rests):
        result = torch.cat([result, rest], d)
    return result.contiguous()


def combined(rows: "Tensor", hit: "Tensor", values: "Tensor", how: str) -> "Tensor":
    """Combine rows with the values that hit each of their elements."""
    import torch  # noqa: PLC0415

    if how == "sum":
        return rows + torch.where(hit, values, 0).sum(-1).to(rows.dtype)
    if how == "prod":
        return rows * torch.where(hit, values, 1).prod(-1).to(rows.dtype)
    if how in ("amax", "amin"):
        low, high = limits(rows)
        if how == "amax":
            return torch.maximum(rows, torch.where(hit, values, low).amax(-1))
        return torch.minimum(rows, torch.where(hit, values, high).amin(-1))
    order = torch.arange(hit.shape[-1], dtype=torch.float32)
    last = torch.where(hit, order, -1.0).amax(-1)
    total = torch.where(order == last.unsqueeze(-1), values, 0).sum(-1).to(rows.dtype) if not how else values[..., 0]
    return torch.where(last >= 0, total, rows)


def hypot(a: "Tensor", b: "Tensor") -> "Tensor":
    """Decompose ``aten.hypot`` without overflow in the squares."""
    import torch  # noqa: PLC0415

    dtype = torch.result_type(a, b)
    a, b = a.to(dtype).abs(), b.to(dtype).abs()
    most, least = torch.maximum(a, b), torch.minimum(a, b)
    share = least / torch.where(most > 0, most, 1)
    return torch.where(most < inf, most * torch.sqrt(1 + share * share), most)
