"""Resizes of PyTorch's programs that average what lies under each new pixel, written out as two products.

What an element of a row is a sum of depends on sizes alone, so that its weights are constants.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

SHARPNESS = -0.5  # of the cubic, as PyTorch has it where it averages


def triangle(distance: "Tensor") -> Any:  # noqa: ANN401 - a tensor
    """Weight of an element at a distance, linear up to 1."""
    return (1.0 - distance).clamp(min=0.0)


def cubic(distance: "Tensor") -> Any:  # noqa: ANN401
    """Weight of an element at a distance, a cubic up to 1 and another up to 2."""
    import torch  # noqa: PLC0415 - comes with an extra

    near = ((SHARPNESS + 2.0) * distance - (SHARPNESS + 3.0)) * distance * distance + 1.0
    far = ((distance - 5.0) * distance + 8.0) * distance - 4.0
    return torch.where(distance < 1.0, near, torch.where(distance < 2.0, SHARPNESS * far, 0.0))


def averaging(weight: "Callable[[Tensor], Tensor]") -> "Callable[..., Any]":
    """A resize of images (batch, channels, rows, columns) by a weight of distances.

    Args:
        weight: Weight of an element at a distance, in new pixels where these are larger.
    """

    def resize(
        x: "Tensor",
        size: "Sequence[int]",
        align_corners: bool,
        by_rows: float | None = None,
        by_columns: float | None = None,
    ) -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`: the op is left to the converter
        # PyTorch rounds bytes as it goes, and of one column takes its first row alone.
        if not x.is_floating_point() or size[1] == 1:
            return NotImplemented
        rows = shares(x.shape[2], size[0], align_corners, by_rows, weight).to(x.dtype)
        columns = shares(x.shape[3], size[1], align_corners, by_columns, weight).to(x.dtype)
        return rows @ (x @ columns.t())

    return resize


def shares(
    old: int, new: int, align_corners: bool, factor: float | None, weight: "Callable[[Tensor], Tensor]"
) -> "Tensor":
    """What each new element has of each old one of a row, (new, old).

    Args:
        old: Number of old elements.
        new: Number of new ones.
        align_corners: Whether the ends of both are the same.
        factor: How many new ones there are for an old one, where that is given.
        weight: Weight of a distance.
    """
    import torch  # noqa: PLC0415

    if old == new:  # which PyTorch leaves as it is, whatever the factor
        return torch.eye(old, dtype=torch.float64)
    step = step_of(old, new, align_corners, factor)
    centers = step * (torch.arange(new, dtype=torch.float64) + 0.5)
    old_centers = torch.arange(old, dtype=torch.float64) + 0.5
    found = weight((old_centers - centers.unsqueeze(1)).abs() / max(step, 1.0))
    return found / found.sum(1, keepdim=True)


def step_of(old: int, new: int, align_corners: bool, factor: float | None) -> float:
    """Old elements from one new element to the next."""
    if align_corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / factor if factor else old / new


linearly, cubically = averaging(triangle), averaging(cubic)
