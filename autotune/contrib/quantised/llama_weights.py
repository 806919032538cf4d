"""Weights of a Llama as its function takes them: block-quantized as in the file, stacked over layers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.contrib.quantised.ggml import FORMATS, Parts, as_one, repack
from autotune.contrib.quantised.gguf_file import GGUFFile, StoredTensor, check_finite
from autotune.contrib.quantised.llama_config import LlamaConfig, Source, rotary_tables, sources
from autotune.core.payload import Array
from payload.blocks import BlockFormat

BLOCK = "blk_"  # prefix of the names of per-layer weights
PLAIN = ("F32", "F16", "BF16")


@dataclass
class LlamaWeights:
    """Weights by name.

    Attributes:
        forms: Format of every matrix; `None` for f32.
        arrays: Bytes, scales, minimums and f32 numbers by argument name; per-layer weights have shape ``(L, ...)``.
        notes: Sentences on weights that are not stored as in the file.
    """

    forms: dict[str, BlockFormat | None] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, name: str, tensors: Sequence[tuple[StoredTensor, Array]], *, stacked: bool) -> None:
        """Add a weight.

        Args:
            name: Name of the weight.
            tensors: Tensor of every layer, and the indices of its rows in the order of the weight.
            stacked: Whether there is a dimension of layers.
        """
        form, layers, note = in_one_format(tensors)
        if note:
            self.notes.append(f"{name} {note}")
        for end in layers[0]:
            for (tensor, _), parts in zip(tensors, layers, strict=True):
                check_finite(tensor.name, parts[end])
            self.arrays[name + end] = np.stack([parts[end] for parts in layers]) if stacked else layers[0][end]
        self.forms[name] = form


def in_one_format(tensors: Sequence[tuple[StoredTensor, Array]]) -> tuple[BlockFormat | None, list[Parts], str]:
    """Return a format for all layers, the layers' parts in it, and a note, empty if the format is unchanged."""
    format_names = sorted({tensor.kind for tensor, _ in tensors})
    if all(kind in FORMATS for kind in format_names):
        repacked = [(FORMATS[tensor.kind], repack(tensor.kind, tensor.stored[rows])) for tensor, rows in tensors]
        if len(format_names) == 1:
            return repacked[0][0], [parts for _, parts in repacked], ""
        form, layers = as_one([form for form, _ in repacked], [parts for _, parts in repacked])
        bits = 8 * sum(part.nbytes for part in layers[0].values()) / layers[0][""].size
        return form, layers, f"is {' and '.join(format_names)}: {bits:.3g} bits hold both"
    widened: list[Parts] = [{"": tensor.numbers(0, tensor.shape[0])[rows]} for tensor, rows in tensors]
    note = "" if format_names == ["F32"] else f"is {' and '.join(format_names)}, which is widened to f32"
    return None, widened, note


def take_weights(file: GGUFFile, config: LlamaConfig) -> LlamaWeights:
    """Return all weights of a model.

    Raises:
        UnsupportedError: A tensor is missing, has a different shape, or holds numbers that are not finite.
    """
    weights = LlamaWeights()
    for name, shape in config.global_shapes.items():
        weights.take(name, [(file.tensor(f"{name}.weight", shape), np.arange(shape[0]))], stacked=False)
    where = sources(config)
    for name, shape in config.shapes.items():
        source, rows = where[name], rows_of(name, where[name], config)
        whole = (source.rows, *shape[1:])
        tensors = [(file.tensor(f"blk.{layer}.{source.tensor}", whole), rows) for layer in range(config.layers)]
        weights.take(BLOCK + name, tensors, stacked=True)
    weights.arrays |= rotary_tables(file, config)
    return weights


def rows_of(name: str, source: Source, config: LlamaConfig) -> Array:
    """Return the rows of a tensor in the order of the weight.

    If the file pairs neighbours of a head for rotary positions, rows of queries and keys are permuted so that halves
    are paired; their dot products do not change.
    """
    count = config.shapes[name][0]
    rows = np.arange(source.first, source.first + count)
    if config.interleaved and name in ("q", "k", "q_bias", "k_bias"):
        return rows.reshape(-1, config.depth // 2, 2).swapaxes(1, 2).reshape(-1)
    return rows
