"""Decomposition of PyTorch's attention with the memory layout of its kernel, so that later views are valid."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def attention(query: "Tensor", *others: Any, **named: Any) -> Any:  # noqa: ANN401 - as PyTorch has them
    """Decompose ``aten._scaled_dot_product_flash_attention_for_cpu``, with the memory layout of the queries.

    PyTorch's own decomposition puts the tokens first in memory, unlike its kernel.
    """
    from torch._decomp.decompositions import (  # noqa: PLC0415 - comes with an extra
        scaled_dot_product_flash_attention_for_cpu,
    )
    from torch._prims_common import compute_elementwise_output_logical_to_physical_perm  # noqa: PLC0415

    mixed, sums = scaled_dot_product_flash_attention_for_cpu(query, *others, **named)
    order = list(compute_elementwise_output_logical_to_physical_perm(query)[0])
    back = [order.index(dim) for dim in range(len(order))]
    return mixed.permute(order).contiguous().permute(back), sums
