"""Weights of a Llama as its function takes them: blocks as the file has them, of all layers in one array."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.contrib.quantised.ggml import FORMATS, Parts, as_one, repack
from autotune.contrib.quantised.gguf_file import GGUFFile, StoredTensor, check_finite
from autotune.contrib.quantised.llama_config import LlamaConfig, Source, rotary_tables, sources
from autotune.core.payload import Array
from payload.blocks import BlockFormat

BLOCK = "blk_"  # what names of weights begin with that every layer has
PLAIN = ("F32", "F16", "BF16")


@dataclass
class LlamaWeights:
    """Weights by name.

    Attributes:
        forms: Format of every matrix; `None` for f32.
        arrays: Bytes, scales, least numbers and f32 by argument's name; of blocks ``(L, ...)``.
        notes: Sentences on what is not kept as the file has it.
    """

    forms: dict[str, BlockFormat | None] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, name: str, tensors: Sequence[tuple[StoredTensor, Array]], *, stacked: bool) -> None:
        """Add a weight.

        Args:
            name: Name of the weight.
            tensors: Tensor of every layer, and which of its rows, in which order.
            stacked: Whether layers have a dimension of their own.
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
    """A format for all layers, their parts in it, and what is to be noted, if anything."""
    kinds = sorted({tensor.kind for tensor, _ in tensors})
    if all(kind in FORMATS for kind in kinds):
        found = [(FORMATS[tensor.kind], repack(tensor.kind, tensor.stored[rows])) for tensor, rows in tensors]
        if len(kinds) == 1:
            return found[0][0], [parts for _, parts in found], ""
        form, layers = as_one([form for form, _ in found], [parts for _, parts in found])
        bits = 8 * sum(part.nbytes for part in layers[0].values()) / layers[0][""].size
        return form, layers, f"is {' and '.join(kinds)}: {bits:.3g} bits hold both"
    widened: list[Parts] = [{"": tensor.numbers(0, tensor.shape[0])[rows]} for tensor, rows in tensors]
    note = "" if kinds == ["F32"] else f"is {' and '.join(kinds)}, which is widened to f32"
    return None, widened, note


def take_weights(file: GGUFFile, config: LlamaConfig) -> LlamaWeights:
    """All weights of a model.

    Raises:
        UnsupportedError: A tensor is missing, of another shape, or holds numbers that are not finite.
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
    """Rows of a tensor in the order of the weight.

    Where neighbours of a head are paired for rotary positions, rows of queries and keys are put so that halves are:
    their products stay what they are.
    """
    count = config.shapes[name][0]
    rows = np.arange(source.first, source.first + count)
    if config.interleaved and name in ("q", "k", "q_bias", "k_bias"):
        return rows.reshape(-1, config.depth // 2, 2).swapaxes(1, 2).reshape(-1)
    return rows
