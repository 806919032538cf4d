"""Weights of a GPT: their declaration, random values, and values from a Hugging Face GPT-2 file.

Tensors of the blocks are stacked along a leading dimension of `layers`, so that one loop body serves every block.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from autotune.core.errors import PayloadError
from autotune.core.host import files
from autotune.core.payload import Argument, Array, random_array
from payload.config import GPTConfig
from payload.storage import declare_stored, store_weights

# Our name -> Hugging Face name; both store linear weights as (in, out).
TABLES = {"wte": "wte.weight", "wpe": "wpe.weight"}
BLOCK = {
    "ln_1_gain": "ln_1.weight",
    "ln_1_bias": "ln_1.bias",
    "qkv_weight": "attn.c_attn.weight",
    "qkv_bias": "attn.c_attn.bias",
    "mix_weight": "attn.c_proj.weight",
    "mix_bias": "attn.c_proj.bias",
    "ln_2_gain": "ln_2.weight",
    "ln_2_bias": "ln_2.bias",
    "up_weight": "mlp.c_fc.weight",
    "up_bias": "mlp.c_fc.bias",
    "down_weight": "mlp.c_proj.weight",
    "down_bias": "mlp.c_proj.bias",
}
FINAL = {"ln_f_gain": "ln_f.weight", "ln_f_bias": "ln_f.bias"}
READABLE = ("F16", "F32", "F64")


def belongs_to_block(name: str) -> bool:
    """Return whether a weight, or its scale, is stacked by layer."""
    return name.removesuffix("_scale") in BLOCK


def declare(config: GPTConfig) -> tuple[Argument, ...]:
    """Return every weight as a payload argument as the config stores it, in the order of the entry function."""
    return tuple(stored for argument in declare_plain(config) for stored in declare_stored(argument, config.storage))


def declare_plain(config: GPTConfig) -> tuple[Argument, ...]:
    """Return every weight as an f32 argument.

    Random linear weights are uniform in ``+-sqrt(3 / fan_in)``, so that activations keep unit variance at any width;
    the tables likewise, so that logits have unit variance. Gains are in ``[0.5, 1.5)``, biases in ``[-0.1, 0.1)``.
    """
    deep, wide, hidden = config.layers, config.d_model, config.d_ff
    positions = () if config.rope else (linear_weight("wpe", (config.positions, wide), wide),)  # (P, C)
    return (
        linear_weight("wte", (config.vocab, wide), wide),  # (V, C)
        *positions,
        gain("ln_1_gain", (deep, wide)),  # (L, C)
        bias("ln_1_bias", (deep, wide)),  # (L, C)
        linear_weight("qkv_weight", (deep, wide, 3 * wide), wide),  # (L, C, 3C)
        bias("qkv_bias", (deep, 3 * wide)),  # (L, 3C)
        linear_weight("mix_weight", (deep, wide, wide), wide),  # (L, C, C)
        bias("mix_bias", (deep, wide)),  # (L, C)
        gain("ln_2_gain", (deep, wide)),  # (L, C)
        bias("ln_2_bias", (deep, wide)),  # (L, C)
        linear_weight("up_weight", (deep, wide, hidden), wide),  # (L, C, F)
        bias("up_bias", (deep, hidden)),  # (L, F)
        linear_weight("down_weight", (deep, hidden, wide), hidden),  # (L, F, C)
        bias("down_bias", (deep, wide)),  # (L, C)
        gain("ln_f_gain", (wide,)),  # (C)
        bias("ln_f_bias", (wide,)),  # (C)
    )


def linear_weight(name: str, shape: tuple[int, ...], fan_in: int) -> Argument:
    """Declare a matrix whose products with unit-variance rows have unit variance."""
    bound = math.sqrt(3 / fan_in)
    return Argument(name, "weight", shape, low=-bound, high=bound)


def gain(name: str, shape: tuple[int, ...]) -> Argument:
    """Declare the gain of a layer norm."""
    return Argument(name, "weight", shape, low=0.5, high=1.5)


def bias(name: str, shape: tuple[int, ...]) -> Argument:
    """Declare a bias of small values."""
    return Argument(name, "weight", shape, low=-0.1, high=0.1)


def random_weights(config: GPTConfig, seed: int) -> dict[str, Array]:
    """Return random f32 weights by name, deterministic in the seed."""
    rng = np.random.default_rng(seed)
    return {argument.name: random_array(argument, rng) for argument in declare_plain(config)}


def load_gpt2(path: str, config: GPTConfig) -> dict[str, Array]:
    """Load weights by name, stacked and stored as in the config, from a safetensors file with Hugging Face GPT-2 names.

    Names may start with ``transformer.``; attention masks and ``lm_head.weight`` (tied to ``wte``) are ignored.

    Raises:
        PayloadError: The file cannot be read, or lacks a tensor, or one has another shape or dtype.
    """
    with opened(path) as file:
        prefix = check_file(file, path, config)
        plain = {a.name: read_tensor(file, prefix, a, config) for a in declare_plain(config)}
    return store_weights(plain, config)


def check_gpt2(path: str, config: GPTConfig) -> None:
    """Check a file as `load_gpt2` does, but read its header only.

    Raises:
        PayloadError: The file cannot be read, or lacks a tensor, or one has another shape or dtype.
    """
    with opened(path) as file:
        check_file(file, path, config)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Open the safetensors file at `path` and close it afterwards."""
    try:
        files.check_file(path)  # on a FIFO, the library would block uninterruptibly until a writer opens it
        with safe_open(path, framework="np") as file:
            yield file
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise PayloadError(
            f"weights must be a readable safetensors file, got {path!r} ({reason}); convert or download it again"
        ) from error


def check_file(file: Any, path: str, config: GPTConfig) -> str:  # noqa: ANN401  safetensors has no type for it
    """Check presence, shape and dtype of every tensor; return the prefix of the names, which may be empty."""
    present = set(file.keys())
    prefix = "transformer." if "transformer.wte.weight" in present else ""
    for argument in declare_plain(config):
        shape = argument.shape[1:] if argument.name in BLOCK else argument.shape
        for name in file_names(argument.name, config.layers):
            full = prefix + name
            if full not in present:
                raise PayloadError(f"weights must have tensor {full!r}, {path!r} lacks it; use a GPT-2 checkpoint")
            check_tensor(full, file.get_slice(full), shape)
    return prefix


def check_tensor(name: str, entry: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401  as above
    """Check shape and dtype of one tensor against the config."""
    if tuple(entry.get_shape()) != shape:
        raise PayloadError(f"{name} must be {shape} for these sizes, got {tuple(entry.get_shape())}; change the sizes")
    if entry.get_dtype() not in READABLE:
        raise PayloadError(
            f"dtype of {name} must be one of {', '.join(READABLE)}, got {entry.get_dtype()}; convert the file to F32"
        )


def file_names(name: str, layers: int) -> list[str]:
    """Return the Hugging Face names of one of our weights: one name, or one per layer."""
    if name in BLOCK:
        return [f"h.{layer}.{BLOCK[name]}" for layer in range(layers)]
    return [(TABLES | FINAL)[name]]


def read_tensor(file: Any, prefix: str, argument: Argument, config: GPTConfig) -> Array:  # noqa: ANN401  as above
    """Read one weight as f32, stacked if it belongs to the blocks."""
    parts = [file.get_tensor(prefix + name) for name in file_names(argument.name, config.layers)]
    return np.stack(parts).reshape(argument.shape).astype(np.float32)
