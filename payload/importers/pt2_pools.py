"""Decompositions of pools that torch-mlir lowers to other ones, or refuses: adaptive max pools, pools without a batch.

An adaptive max pool may have windows of different sizes, which torch-mlir lowers as if they were equal.

    y[i] = max of x[i * n // m], .., x[ceil((i + 1) * n / m) - 1],  n elements, m windows

Here every window is gathered by indices of its own.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = Any  # a tensor, two tensors, or `NotImplemented`: the op is left to the converter


def largest_of_windows(x: "Tensor", output_size: Sequence[int]) -> Result:
    """Decompose ``aten.adaptive_max_pool2d`` and ``3d``: the maxima, and their indices in the plane.

    Every window is extended to the largest size by repeating its last element.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    count = len(output_size)
    sizes = tuple(x.shape[-count:])
    is_even = all(size % windows == 0 for size, windows in zip(sizes, output_size, strict=True))
    if not x.numel() or (is_even and x.dim() == count + 2):
        return NotImplemented
    rows, first = x, x.dim() - count
    position = torch.zeros((), dtype=torch.int64)
    for number, (size, windows) in enumerate(zip(sizes, output_size, strict=True)):
        window = torch.arange(windows)
        begin, end = window * size // windows, ((window + 1) * size + windows - 1) // windows
        longest = max(-(-(n + 1) * size // windows) - n * size // windows for n in range(windows))
        index = torch.minimum(begin.unsqueeze(-1) + torch.arange(longest), end.unsqueeze(-1) - 1).reshape(-1)
        dim = first + 2 * number  # the dimensions before are split already, into windows and their elements
        rows = rows.index_select(dim, index).unflatten(dim, (windows, longest))
        along = [1] * (2 * count)
        along[2 * number : 2 * number + 2] = windows, longest
        position = position * size + index.reshape(along)
    outer, inner = range(0, 2 * count, 2), range(1, 2 * count, 2)
    order = [*range(first), *(first + d for d in outer), *(first + d for d in inner)]
    rows, position = rows.permute(order).flatten(-count), position.permute(*outer, *inner).flatten(-count)
    values, chosen = rows.max(-1)
    return values, position.expand(rows.shape).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def with_batch(op: Any, rank: int) -> Callable[..., Result]:  # noqa: ANN401 - an op of PyTorch
    """Return a decomposition of a pool of a tensor without a batch dimension to that of a batch of one.

    Args:
        op: The pool.
        rank: Rank of a tensor with a batch dimension; other tensors are left to the converter.
    """

    def pooled(x: "Tensor", *arguments: Any, **named: Any) -> Result:  # noqa: ANN401 - as the op has them
        if x.dim() == rank or not x.numel():
            return NotImplemented
        result = op(x.unsqueeze(0), *arguments, **named)
        return tuple(each.squeeze(0) for each in result) if isinstance(result, tuple) else result.squeeze(0)

    return pooled


def with_batches() -> dict[Any, Callable[..., Result]]:
    """Return the decompositions of pools without a batch dimension, by op."""
    import torch  # noqa: PLC0415 - comes with an extra

    aten = torch.ops.aten
    planes = (aten.max_pool2d.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)
    volumes = (aten.max_pool3d.default, aten.max_pool3d_with_indices.default, aten.avg_pool3d.default)
    return {op: with_batch(op, rank) for rank, ops in ((4, planes), (5, volumes)) for op in ops}
