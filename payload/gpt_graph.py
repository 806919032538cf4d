"""A GPT as a graph of ops with every layer unrolled, which comparators translate. `payload.gpt` writes the MLIR.

Sizes: T tokens, B sequences, C width, H heads, D = C / H, F hidden width of the MLP, V vocabulary, n filled rows of a
cache. The residual stream has B T rows, where B or T is 1.
"""

from autotune.core.ops.graph import Graph, GraphWriter
from autotune.core.payload import Argument
from payload.config import GPTConfig
from payload.reference import LAYER_NORM_EPSILON
from payload.storage import SUMMED, declare_stored
from payload.weights import BLOCK, declare_plain

Names = dict[str, str]


def write_graph(config: GPTConfig, function: str) -> Graph:
    """Return the graph of a function, which reads the same arguments as the payload's MLIR."""
    g, wide, rows = GraphWriter(), config.d_model, config.batch * config.seq
    declared = {argument.name: argument for argument in declare_plain(config)}
    w = {name: weight(g, config, a) for name, a in declared.items() if name not in BLOCK}
    x = g.op("embedding", w["wte"], "tokens", shape=(rows, wide))  # BT x C
    if not config.rope:
        x = g.op("add", x, embed_positions(g, w["wpe"], config, function), shape=(rows, wide))  # BT x C
    for layer in range(config.layers):
        layer_weights = {name: weight(g, config, declared[name], layer) for name in BLOCK}  # every (L, ...) to (...)
        mixed = mix(g, project(g, layer_weights, x, config), config, function, layer)  # BT x C
        x = finish_block(g, layer_weights, x, mixed, config)  # BT x C
    if function == "prefill":
        x, rows = g.op("row_before", x, "length", shape=(1, wide)), 1  # 1 x C
    x = norm(g, x, w["ln_f_gain"], w["ln_f_bias"], (rows, wide))
    g.op("matmul", x, w["wte"], shape=(rows, config.vocab), name="logits", transpose_b=1)  # wte is (V, C)
    return g.graph


def weight(g: GraphWriter, config: GPTConfig, argument: Argument, layer: int | None = None) -> str:
    """Add a weight, or its slice for one layer, in f32: dequantized or widened where it is stored otherwise."""
    stored, shape = declare_stored(argument, config.storage), argument.shape
    names = [each.name for each in stored]
    if layer is not None:
        shape = shape[1:]
        names = [g.op("layer", a.name, shape=a.shape[1:], name=f"{a.name}_{layer}", index=layer) for a in stored]
    if stored == (argument,):
        return names[0]
    return g.op("restore", *names, shape=shape, axis=SUMMED[argument.name])


def embed_positions(g: GraphWriter, table: str, config: GPTConfig, function: str) -> str:
    """Add the learned position embedding from a table ``(P, C)``: the first rows, or the row at ``position``."""
    if function == "decode":
        return g.op("embedding", table, "position", shape=(1, config.d_model))
    return g.op("rows", table, shape=(config.seq, config.d_model), count=config.seq)


def norm(g: GraphWriter, x: str, gain: str, bias: str, shape: tuple[int, int]) -> str:
    """Add a layer norm of every row."""
    return g.op("layer_norm", x, gain, bias, shape=shape, epsilon=LAYER_NORM_EPSILON)


def linear(g: GraphWriter, w: Names, x: str, name: str, shape: tuple[int, int]) -> str:
    """Add one of the four linear layers of a block."""
    return g.op("linear", x, w[f"{name}_weight"], w[f"{name}_bias"], shape=shape)


def project(g: GraphWriter, w: Names, x: str, config: GPTConfig) -> str:
    """Add the projection to concatenated queries, keys and values: ``(BT, C) -> (BT, 3C)``."""
    rows, wide = config.batch * config.seq, config.d_model
    normed = norm(g, x, w["ln_1_gain"], w["ln_1_bias"], (rows, wide))
    return linear(g, w, normed, "qkv", (rows, 3 * wide))


def mix(g: GraphWriter, qkv: str, config: GPTConfig, function: str, layer: int) -> str:
    """Add self-attention, over the filled rows of the caches if there are any: ``(BT, 3C) -> (BT, C)``."""
    batch, rows, decoding = config.batch, config.seq, function == "decode"
    heads, filled = (batch, config.heads, rows, config.depth), config.positions if decoding else rows
    position = ("position",) if decoding else ()
    q, k, v = g.ops("split_heads", qkv, shape=heads, names="qkv")  # 3 of B x H x T x D
    if config.rope:
        q, k = (g.op("rotate", part, *position, shape=heads) for part in (q, k))
    if function != "forward":
        past = (batch, config.heads, filled, config.depth)
        k, v = (
            g.op("store_rows", cache, part, *position, shape=past, layer=layer)  # B x H x n x D
            for cache, part in (("keys", k), ("values", v))
        )
    mixed = g.op("attention", q, k, v, shape=heads, causal=not decoding)  # B x H x T x D
    return g.op("merge_heads", mixed, shape=(batch * rows, config.d_model), batch=batch)


def finish_block(g: GraphWriter, w: Names, x: str, mixed: str, config: GPTConfig) -> str:
    """Add the part of a block after attention: ``(BT, C) -> (BT, C)``."""
    narrow, wide = (config.batch * config.seq, config.d_model), (config.batch * config.seq, config.d_ff)
    x = g.op("add", x, linear(g, w, mixed, "mix", narrow), shape=narrow)
    hidden = linear(g, w, norm(g, x, w["ln_2_gain"], w["ln_2_bias"], narrow), "up", wide)  # BT x F
    hidden = g.op("gelu", hidden, shape=wide)
    return g.op("add", x, linear(g, w, hidden, "down", narrow), shape=narrow)
