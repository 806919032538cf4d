"""Views of PyTorch's programs that are named by their strides or by pads below zero, as other views where they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def as_strided(x: "Tensor", size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:  # noqa: ANN401 - a tensor, or `NotImplemented`
    """What ``aten.as_strided`` gives where elements stay in their order; else it is left to the converter.

    That takes every element at an index of its own, of tables as large as the result: what group norms multiply with
    would be no operand of element-wise ops.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    wanted = torch.empty(tuple(size), device="meta")
    whole = x.is_contiguous() and x.numel() == wanted.numel() and not storage_offset and not x.storage_offset()
    return x.reshape(tuple(size)) if whole and tuple(stride) == wanted.stride() else NotImplemented


def pad_with_one(x: "Tensor", pads: Sequence[int], value: float = 0.0) -> Any:  # noqa: ANN401
    """What ``aten.constant_pad_nd`` gives where pads below zero cut elements off; else it is left to the converter.

    That writes them as pads of MLIR, which has none below zero.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    if all(pad >= 0 for pad in pads):
        return NotImplemented
    for number, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        dim = x.dim() - 1 - number  # the last dimension's pads come first
        x = x.narrow(dim, max(-low, 0), x.shape[dim] - max(-low, 0) - max(-high, 0))
    rest = [max(pad, 0) for pad in pads]
    return torch.ops.aten.constant_pad_nd.default(x, rest, value) if any(rest) else x.clone()
