"""Views of PyTorch's programs that are named by their strides, as another shape where they are one."""

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
