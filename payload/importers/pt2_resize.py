"""Decomposition of PyTorch's antialiased resizing to two matrix products, one per axis.

The interpolation weights depend on sizes only, so that they are constants.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

SHARPNESS = -0.5  # parameter of the cubic kernel, as in PyTorch's antialiased mode


def triangle(distance: "Tensor") -> Any:  # noqa: ANN401 - a tensor
    """Return the weight at a distance: linear up to 1."""
    return (1.0 - distance).clamp(min=0.0)


def cubic(distance: "Tensor") -> Any:  # noqa: ANN401
    """Return the weight at a distance: one cubic up to 1, another up to 2."""
    import torch  # noqa: PLC0415 - comes with an extra

    inner = ((SHARPNESS + 2.0) * distance - (SHARPNESS + 3.0)) * distance * distance + 1.0
    outer = ((distance - 5.0) * distance + 8.0) * distance - 4.0
    return torch.where(distance < 1.0, inner, torch.where(distance < 2.0, SHARPNESS * outer, 0.0))


def averaging(weight: "Callable[[Tensor], Tensor]") -> "Callable[..., Any]":
    """Return the decomposition of a resize of images (batch, channels, rows, columns) with an interpolation kernel.

    Args:
        weight: Kernel: weight at a distance, which is in units of output pixels when downsampling.
    """

    def resize(
        x: "Tensor",
        size: "Sequence[int]",
        align_corners: bool,
        by_rows: float | None = None,
        by_columns: float | None = None,
    ) -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`: the op is left to the converter
        # PyTorch rounds u8 between the two passes, and for one output column it reads only the first row.
        if not x.is_floating_point() or size[1] == 1:
            return NotImplemented
        rows = shares(x.shape[2], size[0], align_corners, by_rows, weight).to(x.dtype)
        columns = shares(x.shape[3], size[1], align_corners, by_columns, weight).to(x.dtype)
        return rows @ (x @ columns.t())

    return resize


def shares(
    old: int, new: int, align_corners: bool, factor: float | None, weight: "Callable[[Tensor], Tensor]"
) -> "Tensor":
    """Return the interpolation matrix of an axis, (new, old).

    Args:
        old: Input size.
        new: Output size.
        align_corners: Whether the first and last elements are aligned.
        factor: Scale from input to output, if given.
        weight: Kernel: weight at a distance.
    """
    import torch  # noqa: PLC0415

    if old == new:  # PyTorch copies such an axis, whatever the factor
        return torch.eye(old, dtype=torch.float64)
    step = step_of(old, new, align_corners, factor)
    centers = step * (torch.arange(new, dtype=torch.float64) + 0.5)
    old_centers = torch.arange(old, dtype=torch.float64) + 0.5
    weights = weight((old_centers - centers.unsqueeze(1)).abs() / max(step, 1.0))
    return weights / weights.sum(1, keepdim=True)


def step_of(old: int, new: int, align_corners: bool, factor: float | None) -> float:
    """Return the distance of consecutive output elements in input elements."""
    if align_corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / factor if factor else old / new


linearly, cubically = averaging(triangle), averaging(cubic)
