"""Decompositions of cumulative sums and products that convert to the result's dtype first."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def sum_along(x: "Tensor", dim: int, dtype: Any = None) -> Any:  # noqa: ANN401 - torch.dtype; a tensor, or `NotImplemented`
    """Decompose ``aten.cumsum`` to one in its result's dtype, which `payload.importers.scan_loops` lowers."""
    import torch  # noqa: PLC0415 - comes with an extra

    return scan(torch.ops.aten.cumsum.default, x, dim, dtype)


def multiply_along(x: "Tensor", dim: int, dtype: Any = None) -> Any:  # noqa: ANN401
    """Decompose ``aten.cumprod``, likewise."""
    import torch  # noqa: PLC0415

    return scan(torch.ops.aten.cumprod.default, x, dim, dtype)


def scan(op: Any, x: "Tensor", dim: int, dtype: Any) -> Any:  # noqa: ANN401
    """Apply a scan in a dtype; integers and booleans are accumulated in 64 bits."""
    import torch  # noqa: PLC0415

    wanted = dtype or (torch.int64 if not x.dtype.is_floating_point else x.dtype)
    if not x.numel() or not x.dim():
        return x.to(wanted).clone()
    if not wanted.is_floating_point and wanted not in (torch.int64, torch.bool):  # PyTorch accumulates these in 64 bits
        whole = x.to(wanted) if x.dtype.is_floating_point else x
        return op(whole.to(torch.int64), dim % x.dim()).to(wanted)
    return op(x.to(wanted), dim % x.dim()) if (x.dtype, None) != (wanted, dtype) or dim < 0 else NotImplemented
