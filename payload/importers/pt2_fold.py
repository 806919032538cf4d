"""Decomposition of PyTorch's ``fold``: overlapping windows are summed at their positions, one axis at a time."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def fold(  # noqa: PLR0917 - as PyTorch calls it
    x: "Tensor",
    size: "Sequence[int]",
    kernel: "Sequence[int]",
    dilation: "Sequence[int]",
    padding: "Sequence[int]",
    stride: "Sequence[int]",
) -> Any:  # noqa: ANN401 - a tensor
    """Decompose ``aten.col2im`` of windows in columns, (channels x kernel, positions), with or without a batch."""
    batched = x if x.dim() == 3 else x.unsqueeze(0)
    rows, columns = (
        (size[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1
        for axis in range(2)
    )
    windows = batched.reshape(batched.shape[0], -1, kernel[0], kernel[1], rows, columns).permute(0, 1, 2, 4, 3, 5)
    of_columns = added_along(windows, size[1], dilation[1], padding[1], stride[1])
    image = added_along(of_columns.permute(0, 1, 4, 2, 3), size[0], dilation[0], padding[0], stride[0])
    image = image.transpose(2, 3).contiguous()
    return image if x.dim() == 3 else image.squeeze(0)


def added_along(windows: "Tensor", size: int, dilation: int, padding: int, stride: int) -> "Tensor":
    """Sum windows along an axis, (.., kernel, positions), at their positions.

    Args:
        windows: Windows to sum.
        size: Size of the axis.
        dilation: Distance between consecutive elements of a window.
        padding: Number of elements by which the first window starts before the axis.
        stride: Distance between consecutive windows.
    """
    kernel, positions = windows.shape[-2:]
    if kernel == stride and dilation == 1 and padding == 0 and size == kernel * positions:  # windows do not overlap
        return windows.transpose(-2, -1).flatten(-2)
    spread = windows if stride == 1 else padded(windows.unsqueeze(-1), 0, stride - 1).flatten(-2)
    row = None
    for number, part in enumerate(spread.unbind(-2)):
        begin = number * dilation - padding
        placed = padded(part, begin, size - begin - part.shape[-1])
        row = placed if row is None else row + placed
    return row


def padded(values: "Tensor", before: int, behind: int) -> Any:  # noqa: ANN401
    """Pad the last axis of a tensor with zeros; negative amounts crop it."""
    from torch.nn import functional  # noqa: PLC0415 - comes with an extra

    return functional.pad(values, (before, behind))
