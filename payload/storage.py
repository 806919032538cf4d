"""How matrices are stored: f32, bf16, or whole numbers of eight bits with a scale per output channel.

What is multiplied is f32 in any case: bf16 loses 16 bits of the mantissa when it is stored, and no more; int8 is
symmetric, ``w = q * scale`` with ``scale = max |w| / 127`` over each output channel, applied to the sum.
Tables, norms and biases other than the token table stay f32.
"""

from dataclasses import replace

import numpy as np

from autotune.core.payload import DTYPES, Argument, Array
from payload.config import GPTConfig

LARGEST = 127  # of a signed byte, without -128: symmetric
# Matrices that are streamed once a token, with the dimension that is summed over.
SUMMED = {"wte": -1, "qkv_weight": -2, "mix_weight": -2, "up_weight": -2, "down_weight": -2}


def declare_stored(argument: Argument, storage: str) -> tuple[Argument, ...]:
    """A weight as it is stored: itself, in another type, or whole numbers and their scales."""
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
    """f32 arrays as the config stores them; what is no matrix stays."""
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
    """Whole numbers in [-127, 127] and a scale for every slice along dimension `summed`, shaped without it.

    A slice of zeros gets the scale 1.
    """
    largest = np.abs(weight).max(axis=summed, keepdims=True)
    scale = np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale.squeeze(summed)
