"""Configuration of a Llama model from a GGUF file: its sizes, and the tensor rows that hold each weight.

Llama, Mistral and SmolLM are ``llama``; Qwen2 adds biases; Phi-3 keeps several weights in one tensor.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import psutil

from autotune.contrib.quantised.gguf_file import GGUFFile
from autotune.core.payload import Array
from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError

ARCHITECTURES = ("llama", "qwen2", "phi3")
SIZES = {"tokens": 64, "positions": 512}  # names that a spec may set, with the upper limits of their defaults
ROTARY_BASE = 10_000.0
MOST_ANGLE = 1e6  # radians per position: sines of larger angles are noise
OF_BLOCK = re.compile(r"blk\.(?P<layer>0|[1-9][0-9]{0,5})\.(?P<tensor>.+)")
ROTARY_SCALES = "rope_freqs.weight"  # optional tensor
# Keys of an architecture that are read here, or that do not affect the result.
KEYS = (
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",
    "vocab_size",
)
# Factors that have no effect if they are 1; any other key has none if it is 0.
FACTORS = ("embedding_scale", "logit_scale", "residual_scale", "rope.scaling.attn_factor")
CAUSAL = "attention.causal"  # has an effect if it is 0: tokens then attend to later ones
WINDOW = "attention.sliding_window"


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a model and of the requested function.

    Attributes:
        architecture: One of `ARCHITECTURES`.
        layers: Number of blocks, L.
        width: Hidden size, C.
        heads: Number of query heads, H.
        groups: Number of key and value heads, G.
        depth: Size of a head, D.
        hidden: Hidden size of the MLP, F.
        vocab: Vocabulary size, V.
        positions: Rows of the caches, P.
        tokens: Tokens per call, T; 1 for decoding, more for a prompt.
        epsilon: Term added under the root of norms.
        tied: Whether the embedding is also the output head.
        biased: Whether queries, keys and values have a bias.
    """

    architecture: str
    layers: int
    width: int
    heads: int
    groups: int
    depth: int
    hidden: int
    vocab: int
    positions: int
    tokens: int
    epsilon: float
    tied: bool
    biased: bool

    @property
    def decodes(self) -> bool:
        """Whether a call takes a single token and its position."""
        return self.tokens == 1

    @property
    def interleaved(self) -> bool:
        """Whether the file pairs neighbours of a head for rotary positions instead of halves."""
        return self.architecture == "llama"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of a block's weights by name, ``(N, K)`` or ``(N)``."""
        wide, narrow = self.heads * self.depth, self.groups * self.depth
        biases = {"q_bias": (wide,), "k_bias": (narrow,), "v_bias": (narrow,)} if self.biased else {}
        return {
            "attn_norm": (self.width,),
            "q": (wide, self.width),
            "k": (narrow, self.width),
            "v": (narrow, self.width),
            **biases,
            "attn_output": (self.width, wide),
            "ffn_norm": (self.width,),
            "gate": (self.hidden, self.width),
            "up": (self.hidden, self.width),
            "down": (self.width, self.hidden),
        }

    @property
    def global_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights outside blocks."""
        table = (self.vocab, self.width)
        return {"token_embd": table, "output_norm": (self.width,), **({} if self.tied else {"output": table})}


@dataclass(frozen=True)
class Source:
    """Rows of a tensor that form a weight.

    Attributes:
        tensor: Name of the tensor, without the prefix of its block.
        first: First row.
        rows: Number of rows of the whole tensor.
    """

    tensor: str
    first: int
    rows: int


def sources(config: LlamaConfig) -> dict[str, Source]:
    """Return the tensor rows of a block's weights, by name."""
    shapes = config.shapes
    names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    separate = {
        name: Source(
            f"{names[name[0]]}.bias" if name.endswith("_bias") else f"{names.get(name, name)}.weight", 0, shape[0]
        )
        for name, shape in shapes.items()
    }
    if config.architecture != "phi3":
        return separate
    return (
        separate
        | together("attn_qkv.weight", ("q", "k", "v"), shapes)
        | together("ffn_up.weight", ("gate", "up"), shapes)
    )


def together(tensor: str, names: tuple[str, ...], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Source]:
    """Return the tensor rows of weights that are stacked in one tensor."""
    rows = [shapes[name][0] for name in names]
    return {name: Source(tensor, sum(rows[:i]), sum(rows)) for i, name in enumerate(names)}


def read_config(file: GGUFFile, sizes: Mapping[str, int]) -> LlamaConfig:
    """Return the configuration from a file and the requested sizes.

    Args:
        file: File of the model.
        sizes: Requested values of `SIZES`, by name.

    Raises:
        UnsupportedError: The architecture is not supported, a size is missing or invalid, a key or tensor is not
            supported, or the number of tokens does not match the embedding.
    """
    architecture = str(file.fields.get("general.architecture"))
    if architecture not in ARCHITECTURES:
        raise UnsupportedError(
            f"general.architecture must be one of {', '.join(ARCHITECTURES)}, it is {one_line(architecture)[:50]!r}; "
            "import it from ONNX"
        )
    check_plain(file, architecture)
    check_keys(file, architecture)
    width = file.whole(f"{architecture}.embedding_length")
    heads = file.whole(f"{architecture}.attention.head_count")
    table = file.tensors.get("token_embd.weight")
    vocab = table.shape[0] if table is not None else file.whole(f"{architecture}.vocab_size")
    context = file.whole(f"{architecture}.context_length")
    window = file.whole(f"{architecture}.{WINDOW}", context) if file.fields.get(f"{architecture}.{WINDOW}") else context
    positions, tokens = read_sizes(sizes, min(context, window))
    config = LlamaConfig(
        architecture=architecture,
        layers=file.whole(f"{architecture}.block_count"),
        width=width,
        heads=heads,
        groups=file.whole(f"{architecture}.attention.head_count_kv", heads),
        depth=file.whole(f"{architecture}.attention.key_length", max(width // heads, 1)),
        hidden=file.whole(f"{architecture}.feed_forward_length"),
        vocab=vocab,
        positions=positions,
        tokens=tokens,
        epsilon=file.real(f"{architecture}.attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.tensors,
        biased="blk.0.attn_q.bias" in file.tensors,
    )
    check_heads(file, config)
    check_tensors(file, config)
    check_tokenizer(file, config)
    check_caches(config)
    return config


def read_sizes(sizes: Mapping[str, int], most: int) -> tuple[int, int]:
    """Return the rows of the caches and the tokens per call.

    Raises:
        UnsupportedError: A name is unknown, or a size exceeds the model's positions.
    """
    for name in sizes:
        if name not in SIZES:
            raise UnsupportedError(f"sizes of a GGUF model are {', '.join(SIZES)}, got {name!r}; leave it out")
    positions = sizes.get("positions", min(SIZES["positions"], most))
    if positions > most:
        raise UnsupportedError(f"positions must be at most {most}, got {positions}; try positions={most}")
    tokens = sizes.get("tokens", min(SIZES["tokens"], positions))
    if tokens > positions:
        raise UnsupportedError(f"tokens must be at most {positions} positions, got {tokens}; raise positions")
    return positions, tokens


def check_plain(file: GGUFFile, architecture: str) -> None:
    """Check that a file needs no unsupported feature.

    Raises:
        UnsupportedError: The model has experts, or an unknown scaling of rotary positions.
    """
    if file.fields.get(f"{architecture}.expert_count"):
        raise UnsupportedError("a model must have one MLP a block, this one has experts; import a dense model")
    scaling = file.fields.get(f"{architecture}.rope.scaling.type", "linear")
    if scaling not in ("none", "linear") or "rope_factors_short.weight" in file.tensors:
        text = one_line(str(scaling))[:50]
        raise UnsupportedError(f"rotary positions must be scaled linearly or not, {text!r} is not known; import ONNX")


def check_keys(file: GGUFFile, architecture: str) -> None:
    """Check that no key of the architecture states something unsupported.

    Raises:
        UnsupportedError: There is such a key.
    """
    fields = {**file.fields, **{key: f"a list of {count}" for key, count in file.lengths.items()}}
    for key, value in fields.items():
        name = key.removeprefix(f"{architecture}.")
        plain = bool(value) if name == CAUSAL else value == 0 or (name in FACTORS and value == 1)
        if name != key and not plain and (name not in KEYS or key in file.lengths):
            raise UnsupportedError(
                f"{one_line(key)[:80]} must be {'one number' if name in KEYS else 'left out'}, it is "
                f"{one_line(str(value))[:50]}, which is not computed here; import it from ONNX"
            )


def check_tensors(file: GGUFFile, config: LlamaConfig) -> None:
    """Check that every tensor of the file is a weight of the model.

    Raises:
        UnsupportedError: There is such a tensor.
    """
    outside = {f"{name}.weight" for name in config.global_shapes} | {ROTARY_SCALES}
    block_tensors = {source.tensor for source in sources(config).values()}
    for name in file.tensors:
        of_block = OF_BLOCK.fullmatch(name)
        is_known = of_block and of_block["tensor"] in block_tensors and int(of_block["layer"]) < config.layers
        if name not in outside and not is_known:
            raise UnsupportedError(
                f"tensors must be those of a {config.architecture} of {config.layers} blocks, {one_line(name)[:80]} is "
                "none, and is not computed here; import it from ONNX"
            )


def check_heads(file: GGUFFile, config: LlamaConfig) -> None:
    """Check that the sizes of heads are consistent.

    Raises:
        UnsupportedError: Groups do not divide heads, or a head is partly rotated, odd, or has a different size for
            values.
    """
    if config.heads % config.groups:
        raise UnsupportedError(
            f"head_count_kv must divide head_count, got {config.groups} and {config.heads}; convert it again"
        )
    rotated = file.whole(f"{config.architecture}.rope.dimension_count", config.depth)
    of_values = file.whole(f"{config.architecture}.attention.value_length", config.depth)
    if config.depth % 2 or {rotated, of_values} != {config.depth}:
        raise UnsupportedError(
            f"heads must be of one even width and rotated whole, keys are {config.depth}, values {of_values}, "
            f"rotated {rotated}; import it from ONNX"
        )


def check_caches(config: LlamaConfig) -> None:
    """Check that memory holds the caches that are recorded: those of two inputs and two results.

    Raises:
        UnsupportedError: There are too many positions.
    """
    row = 4 * config.layers * config.groups * config.depth * np.dtype(np.float32).itemsize * 2
    most = psutil.virtual_memory().total // row
    if config.positions > most:
        raise UnsupportedError(
            f"positions must be at most {most}, for which this machine has the memory, got {config.positions}; "
            f"try positions={min(most, SIZES['positions'])}"
        )


def check_tokenizer(file: GGUFFile, config: LlamaConfig) -> None:
    """Check that the file has a string for every token, or for none.

    Raises:
        UnsupportedError: The list has a different length.
    """
    count = file.lengths.get("tokenizer.ggml.tokens")
    if count is not None and count != config.vocab:
        raise UnsupportedError(
            f"tokenizer.ggml.tokens must have the {config.vocab} tokens of the embedding, it has {count} tokens; "
            "convert it again"
        )


def rotary_tables(file: GGUFFile, config: LlamaConfig) -> dict[str, Array]:
    """Return cosines and sines for all positions, ``(P, D / 2)`` in f32, of angles in float64.

    Raises:
        UnsupportedError: A number or tensor that scales them is invalid.
    """
    half, prefix = config.depth // 2, f"{config.architecture}.rope"
    base = file.real(f"{prefix}.freq_base", ROTARY_BASE)
    frequency = base ** (-np.arange(half) / half)
    if file.fields.get(f"{prefix}.scaling.type", "linear") == "linear" and file.fields.get(f"{prefix}.scaling.factor"):
        frequency /= file.real(f"{prefix}.scaling.factor")  # even without a type, as in llama.cpp; 0 means no scaling
    if ROTARY_SCALES in file.tensors:
        scales = file.tensor(ROTARY_SCALES, (half,)).numbers(0, half)
        if (least := float(np.min(scales))) <= 0:
            raise UnsupportedError(
                f"numbers of tensor {ROTARY_SCALES} must be positive, one is {least:g}; convert it again"
            )
        frequency /= scales
    fastest = float(np.max(np.abs(frequency)))
    if not fastest < MOST_ANGLE:
        raise UnsupportedError(
            f"rotary positions must turn by less than {MOST_ANGLE:g} each, they turn by {fastest:g}; "
            f"check {prefix}.freq_base, {prefix}.scaling.factor and {ROTARY_SCALES}"
        )
    angle = np.outer(np.arange(config.positions), frequency)
    return {"rope_cos": np.cos(angle).astype(np.float32), "rope_sin": np.sin(angle).astype(np.float32)}
