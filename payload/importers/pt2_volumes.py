"""Decomposition of depthwise 3-D convolutions, which torch-mlir does not lower, into 2-D ones over gathered planes.

As in `payload.importers.onnx_volumes`; normalisation lets them read the volumes without copies of planes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import Graph

VOLUME = 5  # rank of a batch of volumes
Result = Any  # a tensor, or `NotImplemented`: the op is left to the converter


def has_volumes(graph: "Graph") -> bool:
    """Return whether a graph convolves volumes; otherwise, convolutions need not be traced for a decomposition."""
    kernels = [node.args[1] for node in graph.nodes if "conv" in str(node.target) and len(node.args) > 1]
    return any(kernel.meta["val"].dim() == VOLUME for kernel in kernels if "val" in getattr(kernel, "meta", {}))


def convolve_planes(  # noqa: PLR0917 - the signature is PyTorch's
    x: "Tensor",
    weight: "Tensor",
    bias: "Tensor | None",
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Result:
    """Decompose ``aten.convolution`` if it is depthwise over volumes.

    Args:
        x: Volumes, ``(n, c, depth, h, w)``.
        weight: Kernel, ``(f, 1, e, i, j)``.
        bias: Bias, ``(f)``.
        stride: Strides.
        padding: Zeros on both sides.
        dilation: Dilations.
        transposed: Whether the convolution is transposed.
        output_padding: Positions added to a transposed convolution's result.
        groups: Groups of channels.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    if weight.dim() != VOLUME or transposed or groups == 1 or weight.shape[1] > 1:
        return NotImplemented
    filters, _, taps, *_ = weight.shape
    steps, zeros, gaps = ([*each] * (3 // len(each)) for each in (stride, padding, dilation))
    whole = torch.nn.functional.pad(x, [size for each in reversed(zeros) for size in (each, each)]) if any(zeros) else x
    n, channels, depth, *_ = whole.shape
    positions = (depth - gaps[0] * (taps - 1) - 1) // steps[0] + 1
    ends = [tap * gaps[0] + (positions - 1) * steps[0] + 1 for tap in range(taps)]
    cuts = [whole[:, :, tap * gaps[0] : end : steps[0]].unsqueeze(2) for tap, end in enumerate(ends)]
    planes = torch.cat(cuts, 2) if taps > 1 else cuts[0]
    planes = planes.permute(0, 3, 1, 2, 4, 5).reshape(n * positions, channels * taps, *whole.shape[3:])
    kernel = weight.squeeze(1)
    sums = torch.ops.aten.convolution(planes, kernel, bias, steps[1:], [0, 0], gaps[1:], False, [0, 0], groups)
    return sums.reshape(n, positions, filters, *sums.shape[2:]).permute(0, 2, 1, 3, 4)
