"""Decomposition of pairwise distances between the rows of two tensors, which torch-mlir does not support."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, or `NotImplemented`: the op is left to the converter


def distances(rows: "Tensor", columns: "Tensor", p: float, mode: int | None) -> Result:
    """Decompose ``aten._cdist_forward``: p-norms of the differences of each row of one tensor and each of another.

    Args:
        rows: Rows of the first tensor, (.., n, d).
        columns: Rows of the second tensor, (.., m, d).
        p: Order of the norm.
        mode: PyTorch's choice of computing it by a matrix product, which rounds differently; ignored.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    if not rows.numel() or not columns.numel():
        return NotImplemented
    return torch.linalg.vector_norm(rows.unsqueeze(-2) - columns.unsqueeze(-3), p, dim=-1)
