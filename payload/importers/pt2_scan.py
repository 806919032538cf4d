"""Partial sums and products of PyTorch's programs, written as reductions of small blocks."""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from payload.importers.scan import BEST, FEW_COLUMNS, side_of

if TYPE_CHECKING:
    from torch import Tensor


def sum_along(x: "Tensor", dim: int, dtype: Any = None) -> "Tensor":  # noqa: ANN401 - torch.dtype
    """Partial sums along a dimension, as ``aten.cumsum`` gives them; see `payload.importers.scan`."""
    return Scan(0).along(x, dim, dtype)


def multiply_along(x: "Tensor", dim: int, dtype: Any = None) -> "Tensor":  # noqa: ANN401
    """Partial products along a dimension, as ``aten.cumprod`` gives them."""
    return Scan(1).along(x, dim, dtype)


@dataclass(frozen=True)
class Scan:
    """Sums, or products, of the elements up to each.

    Attributes:
        neutral: The number that changes nothing: 0 of sums, 1 of products.
    """

    neutral: int

    def along(self, x: "Tensor", dim: int, dtype: Any) -> "Tensor":  # noqa: ANN401
        """The scan along a dimension, in a dtype; whole numbers and booleans are counted in 64 bits."""
        import torch  # noqa: PLC0415 - comes with an extra

        wanted = dtype or (torch.int64 if not x.dtype.is_floating_point else x.dtype)
        return self.scan(x.to(wanted), dim % max(x.dim(), 1)) if x.numel() and x.dim() else x.to(wanted).clone()

    def combine(self, a: "Tensor", b: "Tensor") -> "Tensor":
        """Two numbers made one."""
        return a * b if self.neutral else a + b

    def reduce(self, x: "Tensor", dim: int) -> "Tensor":
        """The numbers along a dimension made one."""
        return x.prod(dim, dtype=x.dtype) if self.neutral else x.sum(dim, dtype=x.dtype)

    def scan(self, x: "Tensor", axis: int, *, exclusive: bool = False) -> "Tensor":
        """The scan along an axis, block by block.

        In a block, an element is reduced with those before it; the others are replaced by the neutral number, not
        multiplied by zero, which would make NaN of an infinity.
        """
        import torch  # noqa: PLC0415

        shape = list(x.shape)
        size, rows, columns = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
        if 1 < columns < FEW_COLUMNS:
            return self.scan(x.movedim(axis, -1), x.dim() - 1, exclusive=exclusive).movedim(-1, axis)
        side = side_of(size)
        if not side:
            more = torch.full([*shape[:axis], -size % BEST, *shape[axis + 1 :]], self.neutral, dtype=x.dtype)
            return self.scan(torch.cat([x, more], axis), axis, exclusive=exclusive).narrow(axis, 0, size)
        blocks = rows * size // side
        tail = [columns] if columns > 1 else []
        places = torch.arange(side)  # a constant made elsewhere is none of the program's
        read, here = places[:, None], places[None, :]
        taken = (read < here if exclusive else read <= here).reshape([1, side, side, *[1] * len(tail)])
        flat = x.reshape([blocks, side, *tail])
        part = self.reduce(torch.where(taken, flat.unsqueeze(2), torch.full([], self.neutral, dtype=x.dtype)), 1)
        if side < size:
            totals = self.reduce(flat, 1).reshape([rows, size // side, columns])
            before = self.scan(totals, 1, exclusive=True).reshape([blocks, 1, *tail])
            part = self.combine(before, part)
        return part.reshape(shape)
