"""Decompositions of strided views, diagonals, rolls and negative pads in PyTorch's programs to simpler ops."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from payload.importers.pt2_indices import lying_as

if TYPE_CHECKING:
    from torch import Tensor


def as_strided(x: "Tensor", size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`
    """Decompose ``aten.as_strided`` to a reshape if the elements keep their order; else leave it to the converter.

    The converter gathers every element by index tables as large as the result, which would prevent elementwise fusion,
    for example in group norms.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    wanted = torch.empty(tuple(size), device="meta")
    whole = x.is_contiguous() and x.numel() == wanted.numel() and not storage_offset and not x.storage_offset()
    return x.reshape(tuple(size)) if whole and tuple(stride) == wanted.stride() else NotImplemented


def pad_with_one(x: "Tensor", pads: Sequence[int], value: float = 0.0) -> Any:  # noqa: ANN401
    """Decompose ``aten.constant_pad_nd`` with negative pads to slices; else leave it to the converter.

    The converter emits ``tensor.pad``, which does not allow negative pads.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    if all(pad >= 0 for pad in pads):
        return NotImplemented
    for number, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        dim = x.dim() - 1 - number  # the last dimension's pads come first
        x = x.narrow(dim, max(-low, 0), x.shape[dim] - max(-low, 0) - max(-high, 0))
    rest = [max(pad, 0) for pad in pads]
    return torch.ops.aten.constant_pad_nd.default(x, rest, value) if any(rest) else x.clone()


def with_diagonal(x: "Tensor", src: "Tensor", offset: int = 0, dim1: int = 0, dim2: int = 1) -> "Tensor":
    """Decompose ``aten.diagonal_scatter``, which functionalized writes to a diagonal become."""
    import torch  # noqa: PLC0415

    matrices = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = matrices.shape[-2:]
    is_on = torch.arange(columns) - torch.arange(rows).unsqueeze(-1) == offset
    size = rows if offset >= 0 else columns  # elements are indexed by their row or column, whichever starts at 0
    values = torch.nn.functional.pad(src, (0, size - src.shape[-1])).unsqueeze(-1 if offset >= 0 else -2)
    result = torch.where(is_on, values, matrices).movedim((-2, -1), (dim1, dim2))
    return lying_as(result, x)


def rolled(x: "Tensor", shifts: "Sequence[int]", dims: "Sequence[int]" = ()) -> Any:  # noqa: ANN401
    """Decompose ``aten.roll`` over all elements in order; over dimensions, it is left to the converter."""
    if dims or not x.numel():
        return NotImplemented
    flat = x.reshape(-1)
    return flat.roll(shifts[0], 0).reshape(x.shape)
