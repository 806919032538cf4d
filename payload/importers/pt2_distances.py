"""Distances between all rows of two tensors of PyTorch's programs, written out: torch-mlir does not know them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, or `NotImplemented`: the op is left to the converter


def distances(rows: "Tensor", columns: "Tensor", p: float, mode: int | None) -> Result:
    """What ``aten._cdist_forward`` gives: norms of the differences of each row of one tensor and each of another.

    Args:
        rows: Rows, (.., n, d).
        columns: Others, (.., m, d).
        p: The norm's.
        mode: Whether PyTorch multiplies for it, which rounds otherwise.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    if not rows.numel() or not columns.numel():
        return NotImplemented
    return torch.linalg.vector_norm(rows.unsqueeze(-2) - columns.unsqueeze(-3), p, dim=-1)
