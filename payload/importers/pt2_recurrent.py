"""Decomposition of PyTorch's LSTM layers, a single op that supports float32 only, to unrolled steps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from payload.importers.onnx_recurrent import MOST_STEPS

if TYPE_CHECKING:
    from torch import Tensor

LSTM = 2  # oneDNN's number of the layer type


def recurrent_layer(  # noqa: PLR0917 - as PyTorch calls it
    x: "Tensor",
    of_inputs: "Tensor",
    of_states: "Tensor",
    bias: "Tensor",
    more_bias: "Tensor",
    state: "Tensor",
    cell: "Tensor",
    reverse: bool,
    batch_sizes: Sequence[int],
    kind: int,
    hidden: int,
    layers: int,
    has_biases: bool,
    *others: Any,  # noqa: ANN401 - whether it has two directions, lies batch first, or is for training
) -> Any:  # noqa: ANN401 - tensors, or `NotImplemented`: the op is left to the converter
    """Decompose ``aten.mkldnn_rnn_layer`` of a unidirectional LSTM: outputs, last state and cell, no workspace."""
    import torch  # noqa: PLC0415 - comes with an extra
    from torch._decomp.decompositions import one_layer_lstm  # noqa: PLC0415

    if kind != LSTM or layers != 1 or batch_sizes or any(others) or x.shape[0] > MOST_STEPS:
        return NotImplemented
    weights = [of_inputs, of_states, *([bias, more_bias] if has_biases else ())]
    outputs, (last, last_cell) = one_layer_lstm(x, (state.squeeze(0), cell.squeeze(0)), weights, has_biases, reverse)
    return outputs, last.unsqueeze(0), last_cell.unsqueeze(0), torch.empty(0, dtype=torch.uint8)
