"""Small GGUF models of random weights, and what they compute: written from the file's own tensors, as llama.cpp reads
them, and not by what the importer makes of them."""

import gguf
import numpy as np

WIDTH, HEADS, GROUPS, DEPTH, HIDDEN, VOCAB, LAYERS, CONTEXT = 64, 4, 2, 16, 96, 40, 2, 32
SHAPES = {
    "attn_norm.weight": (WIDTH,),
    "attn_q.weight": (HEADS * DEPTH, WIDTH),
    "attn_k.weight": (GROUPS * DEPTH, WIDTH),
    "attn_v.weight": (GROUPS * DEPTH, WIDTH),
    "attn_output.weight": (WIDTH, HEADS * DEPTH),
    "ffn_norm.weight": (WIDTH,),
    "ffn_gate.weight": (HIDDEN, WIDTH),
    "ffn_up.weight": (HIDDEN, WIDTH),
    "ffn_down.weight": (WIDTH, HIDDEN),
}
WIDER = 4  # how many times as wide a model in K formats is, of which rows are groups of 256
FIRST = {"Q4_K": ((0, 1.25e-3), (2, 9e-3)), "Q6_K": ((208, 3e-4),)}  # numbers of f16 in a block, and where
FUSED = {"attn_qkv.weight": ("attn_q", "attn_k", "attn_v"), "ffn_up.weight": ("ffn_gate", "ffn_up")}


def shapes_of(architecture, tied, layers=LAYERS):
    """Shapes of all tensors of a model, by name."""
    block = dict(SHAPES)
    if architecture == "qwen2":
        block |= {f"attn_{part}.bias": block[f"attn_{part}.weight"][:1] for part in "qkv"}
    if architecture == "phi3":
        rows = {name: sum(SHAPES[f"{part}.weight"][0] for part in parts) for name, parts in FUSED.items()}
        block = {name: shape for name, shape in block.items() if name.partition(".")[0] not in sum(FUSED.values(), ())}
        block |= {name: (count, WIDTH) for name, count in rows.items()}
    whole = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    whole |= {} if tied else {"output.weight": (VOCAB, WIDTH)}
    return whole | {f"blk.{i}.{name}": shape for i in range(layers) for name, shape in block.items()}


def widened(shape):
    """A shape of a wider model."""
    wide = {WIDTH: WIDER * WIDTH, HIDDEN: 2 * WIDER * WIDTH, GROUPS * DEPTH: WIDER * GROUPS * DEPTH}
    return tuple(wide.get(size, size) for size in shape)


def random_blocks(kind, shape, rng):
    """Rows of a K format, whose weights are about as large as others': the package writes none."""
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    raw = rng.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
    for first, number in FIRST[kind]:
        raw[..., first : first + 2] = np.array([number], np.float16).view(np.uint8)
    return raw.reshape(shape[0], -1)


def write_model(
    path,
    architecture="llama",
    *,
    kind="Q8_0",
    tied=True,
    tokens=VOCAB,
    fields=(),
    tensors=(),
    mixed=None,
    coder=None,
    layers=LAYERS,
):
    """Write a model; gives its tensors in f32, as its formats define them.

    `fields` and `tensors` replace metadata and tensors, add others, or drop them (None); `mixed` is the format of layer
    1; `coder` writes a tokenizer in the place of tokens alone.
    """
    rng, writer = np.random.default_rng(7), gguf.GGUFWriter(path, architecture)
    sizes = {
        "context_length": CONTEXT,
        "embedding_length": WIDER * WIDTH if kind in FIRST else WIDTH,
        "block_count": layers,
        "feed_forward_length": 2 * WIDER * WIDTH if kind in FIRST else HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": GROUPS,
    } | dict(fields)
    for name, value in sizes.items():
        if value is not None:
            adds = {bool: writer.add_bool, float: writer.add_float32, list: writer.add_array, str: writer.add_string}
            adds.get(type(value), writer.add_uint32)(f"{architecture}.{name}", value)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    if coder is not None:
        coder(writer)
    elif tokens:
        writer.add_token_list([f"t{i}" for i in range(tokens)])
    given, held = dict(tensors), {}
    wanted = shapes_of(architecture, tied, layers)
    for name, narrow in {**dict.fromkeys(given, (WIDTH,)), **wanted}.items():
        shape = widened(narrow) if kind in FIRST else narrow
        array = given.get(name, rng.normal(0, 0.3, shape).astype(np.float32) + ("norm" in name))
        if array is None:
            continue
        here = "F32" if array.ndim == 1 else mixed if mixed and name.startswith("blk.1.") else kind
        code = gguf.GGMLQuantizationType[here]
        raw = random_blocks(here, shape, rng) if here in FIRST else gguf.quants.quantize(array.astype(np.float32), code)
        held[name] = gguf.quants.dequantize(raw, code).astype(np.float64)
        writer.add_tensor(name, raw, raw_dtype=code)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def logits_of(architecture, held, tokens):
    """Logits behind a text, ``(V)`` in float64."""
    return all_logits_of(architecture, held, tokens)[-1]


def all_logits_of(architecture, held, tokens):
    """Logits behind every token of a text, ``(T, V)`` in float64."""
    x = held["token_embd.weight"][tokens]
    for layer in range(sum(name.endswith("attn_norm.weight") for name in held)):
        w = {name.removeprefix(f"blk.{layer}."): array for name, array in held.items()}
        if architecture == "phi3":
            for name, parts in FUSED.items():
                rows = np.cumsum([SHAPES[f"{part}.weight"][0] for part in parts])[:-1]
                w |= {f"{p}.weight": part for p, part in zip(parts, np.split(w[name], rows), strict=True)}
        normal = rms(x, w["attn_norm.weight"])
        q, k, v = (normal @ w[f"attn_{p}.weight"].T + w.get(f"attn_{p}.bias", 0) for p in "qkv")
        q, k, v = (heads(part, count) for part, count in ((q, HEADS), (k, GROUPS), (v, GROUPS)))
        q, k = (turn(part, architecture == "llama") for part in (q, k))
        k, v = (np.repeat(part, HEADS // GROUPS, axis=0) for part in (k, v))
        scores = np.where(np.tri(len(tokens), dtype=bool), q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2]), -np.inf)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (power / power.sum(-1, keepdims=True)) @ v
        x = x + mixed.swapaxes(0, 1).reshape(len(tokens), -1) @ w["attn_output.weight"].T
        normal = rms(x, w["ffn_norm.weight"])
        gate, up = normal @ w["ffn_gate.weight"].T, normal @ w["ffn_up.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w["ffn_down.weight"].T
    head = held.get("output.weight", held["token_embd.weight"])
    return rms(x, held["output_norm.weight"]) @ head.T


def rms(x, gain):
    """Rows over the root of their mean square."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def heads(x, count):
    """``(T, H D)`` to ``(H, T, D)``."""
    return x.reshape(len(x), count, -1).swapaxes(0, 1)


def turn(x, neighbours):
    """Rotary positions, of neighbours or of halves."""
    half = x.shape[2] // 2
    angle = np.outer(np.arange(x.shape[1]), 10_000.0 ** (-np.arange(half) / half))
    low, high = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    parts = [low * np.cos(angle) - high * np.sin(angle), high * np.cos(angle) + low * np.sin(angle)]
    return np.stack(parts, -1).reshape(x.shape) if neighbours else np.concatenate(parts, -1)
