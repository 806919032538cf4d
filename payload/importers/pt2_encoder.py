"""Decomposition of PyTorch's fused encoder layer, the op that `nn.TransformerEncoderLayer` calls for inference."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

OF_POSITIONS, OF_KEYS = 0, 1  # mask kinds: (queries, keys) and (batch, keys); any other has all dimensions


def encoder_layer(  # noqa: PLR0917 - as PyTorch calls it
    x: "Tensor",
    width: int,
    heads: int,
    of_all: "Tensor",
    bias_of_all: "Tensor",
    of_mixed: "Tensor",
    bias_of_mixed: "Tensor",
    is_gelu: bool,
    is_norm_first: bool,
    epsilon: float,
    scale: "Tensor",
    shift: "Tensor",
    next_scale: "Tensor",
    next_shift: "Tensor",
    of_hidden: "Tensor",
    bias_of_hidden: "Tensor",
    of_result: "Tensor",
    bias_of_result: "Tensor",
    mask: "Tensor | None" = None,
    mask_kind: int | None = None,
) -> Any:  # noqa: ANN401 - a tensor
    """Decompose ``aten._transformer_encoder_layer_fwd`` on dense tensors."""
    from torch.nn import functional  # noqa: PLC0415 - comes with an extra

    def first_norm(values: "Tensor") -> "Tensor":
        return functional.layer_norm(values, (width,), scale, shift, epsilon)

    def second_norm(values: "Tensor") -> "Tensor":
        return functional.layer_norm(values, (width,), next_scale, next_shift, epsilon)

    def attended(values: "Tensor") -> "Tensor":
        projected = functional.linear(values, of_all, bias_of_all)
        return functional.linear(mixed_heads(projected, heads, mask, mask_kind), of_mixed, bias_of_mixed)

    def fed_forward(values: "Tensor") -> "Tensor":
        hidden = functional.linear(values, of_hidden, bias_of_hidden)
        activated = functional.gelu(hidden) if is_gelu else functional.relu(hidden)
        return functional.linear(activated, of_result, bias_of_result)

    if is_norm_first:
        x = x + attended(first_norm(x))
        return x + fed_forward(second_norm(x))
    x = first_norm(x + attended(x))
    return second_norm(x + fed_forward(x))


def mixed_heads(projected: "Tensor", heads: int, mask: "Tensor | None", mask_kind: int | None) -> Any:  # noqa: ANN401
    """Compute attention of concatenated queries, keys and values, (batch, tokens, 3 x width).

    Args:
        projected: Queries, keys and values.
        heads: Number of heads.
        mask: Mask that hides scores where it is nonzero, also if it is a float tensor, as in the op.
        mask_kind: Dimensions of the mask: `OF_POSITIONS`, `OF_KEYS`, or all.
    """
    batch, tokens, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
    parts = projected.view(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind()
    query, key, value = parts[0] / math.sqrt(width // heads), parts[1], parts[2]
    scores = query @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(of_all_heads(mask, mask_kind) != 0, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, tokens, width)


def of_all_heads(mask: "Tensor", kind: int | None) -> Any:  # noqa: ANN401
    """Broadcast a mask to scores (batch, heads, queries, keys)."""
    if kind == OF_POSITIONS:
        return mask[None, None]
    return mask[:, None, None] if kind == OF_KEYS else mask
