"""Partial sums of PyTorch's programs, written as small products."""

from math import prod
from typing import TYPE_CHECKING, Any

from payload.importers.scan import BEST, FEW_COLUMNS, side_of

if TYPE_CHECKING:
    from torch import Tensor


def sum_along(x: "Tensor", dim: int, dtype: Any = None) -> "Tensor":  # noqa: ANN401 - torch.dtype
    """Partial sums along a dimension, as ``aten.cumsum`` gives them; see `payload.importers.scan`."""
    import torch  # noqa: PLC0415 - comes with an extra

    wanted = dtype or (torch.int64 if not x.dtype.is_floating_point else x.dtype)
    return sums(x.to(wanted), dim % max(x.dim(), 1)) if x.numel() and x.dim() else x.to(wanted).clone()


def sums(x: "Tensor", axis: int, *, exclusive: bool = False) -> "Tensor":
    """Partial sums along an axis, block by block."""
    import torch  # noqa: PLC0415

    shape = list(x.shape)
    size, rows, columns = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    if 1 < columns < FEW_COLUMNS:
        return sums(x.movedim(axis, -1), x.dim() - 1, exclusive=exclusive).movedim(-1, axis)
    side = side_of(size)
    if not side:
        more = [*shape[:axis], -size % BEST, *shape[axis + 1 :]]
        found = sums(torch.cat([x, torch.zeros(more, dtype=x.dtype)], axis), axis, exclusive=exclusive)
        return found.narrow(axis, 0, size)
    blocks = rows * size // side
    tail = [columns] if columns > 1 else []
    places = torch.arange(side)  # a constant made elsewhere is none of the program's
    before, after = (places[:, None], places[None, :]) if not tail else (places[None, :], places[:, None])
    ones = (before < after if exclusive else before <= after).to(x.dtype)
    flat = x.reshape([blocks, side, *tail])
    part = torch.matmul(ones, flat) if tail else flat @ ones
    if side < size:
        totals = flat.sum(1, dtype=x.dtype).reshape([rows, size // side, columns])
        part = part + sums(totals, 1, exclusive=True).reshape([blocks, 1, *tail])
    return part.reshape(shape)
