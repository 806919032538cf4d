"""A language model of half a billion parameters as a GGUF file of random blocks, as large as trained ones."""

from math import prod
from pathlib import Path

import numpy as np

ARCHITECTURE, LAYERS, WIDTH, HIDDEN, HEADS, GROUPS, VOCAB = "llama", 30, 1024, 4096, 16, 4, 65536
OF_KEYS = WIDTH // HEADS * GROUPS
NUMBERS = {"context_length": 4096, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": HIDDEN}
NUMBERS |= {"attention.head_count": HEADS, "attention.head_count_kv": GROUPS, "vocab_size": VOCAB}
MATRICES = {"attn_q": (WIDTH, WIDTH), "attn_k": (OF_KEYS, WIDTH), "attn_v": (OF_KEYS, WIDTH)}
MATRICES |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH)}
MATRICES |= {"ffn_down": (WIDTH, HIDDEN)}
PARAMETERS = LAYERS * sum(map(prod, MATRICES.values())) + VOCAB * WIDTH
SPREAD = 0.02  # of weights, about
SCALES = {"Q8_0": (SPREAD / 74,), "Q4_0": (SPREAD / 4.6,), "Q4_K": (SPREAD / 260, 7.5 * SPREAD / 260)}  # f16 that lead


def matrix_bytes(kind: str) -> int:
    """Bytes of all matrices in a format, which a token reads."""
    import gguf

    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return PARAMETERS // block * size


def write_model(path: Path, kind: str) -> None:
    """Write the model in a format."""
    import gguf

    rng, code = np.random.default_rng(0), gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[code]
    writer = gguf.GGUFWriter(path, ARCHITECTURE)

    def add(name: str, shape: tuple[int, int]) -> None:
        raw = rng.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
        leading = np.array(SCALES[kind], np.float16).view(np.uint8)
        raw[..., : leading.size] = leading
        writer.add_tensor(name, raw.reshape(shape[0], -1), raw_dtype=code)

    for key, value in NUMBERS.items():
        writer.add_uint32(f"{ARCHITECTURE}.{key}", value)
    writer.add_float32(f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_tokenizer_model("none")
    add("token_embd.weight", (VOCAB, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name, shape in MATRICES.items():
            add(f"blk.{layer}.{name}.weight", shape)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
