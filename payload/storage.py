"""Storage of matrices: f32, bf16, or i8 with a scale per output channel.

Products are computed in f32 in any case. bf16 drops 16 bits of the mantissa when it is stored. i8 quantization is
symmetric, ``w = q * scale`` with ``scale = max |w| / 127`` over each output channel, and the scale is applied to the
sum. The position table, norms and biases stay f32.
"""

from dataclasses import replace

import numpy as np

from autotune.core.payload import DTYPES, Argument, Array
from payload.config import GPTConfig

LARGEST = 127  # largest i8; -128 is not used, so that the range is symmetric
# Matrices that are streamed once per token, with their reduction dimension.
SUMMED = {"wte": -1, "qkv_weight": -2, "mix_weight": -2, "up_weight": -2, "down_weight": -2}


def declare_stored(argument: Argument, storage: str) -> tuple[Argument, ...]:
    """Return the arguments a weight is stored in: itself, with another element type, or i8 values and scales."""
    if storage == "f32" or argument.name not in SUMMED:
        return (argument,)
    if storage != "i8":
        return (replace(argument, dtype=storage),)
    shape = list(argument.shape)
    del shape[SUMMED[argument.name]]
    unit = argument.high / LARGEST
    whole = replace(argument, dtype="i8", low=-LARGEST, high=LARGEST + 1)
    return (whole, Argument(f"{argument.name}_scale", "weight", tuple(shape), low=0.9 * unit, high=1.1 * unit))


def store_weights(plain: dict[str, Array], config: GPTConfig) -> dict[str, Array]:
    """Convert f32 arrays to the storage of the config; arrays that are not matrices are returned unchanged."""
    stored: dict[str, Array] = {}
    for name, array in plain.items():
        if config.storage == "f32" or name not in SUMMED:
            stored[name] = array
        elif config.storage == "i8":
            stored[name], stored[f"{name}_scale"] = quantize(array, SUMMED[name])
        else:
            stored[name] = array.astype(DTYPES[config.storage])
    return stored


def quantize(weight: Array, summed: int) -> tuple[Array, Array]:
    """Quantize symmetrically to i8 in [-127, 127], with one scale for every slice along dimension `summed`.

    The shape of the scales is that of the weight without dimension `summed`. The scale of a slice of zeros is 1.
    """
    largest = np.abs(weight).max(axis=summed, keepdims=True)
    scale = np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale.squeeze(summed)
