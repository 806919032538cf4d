"""GPT-2 in one file, in the dialect `gpt`: pre-norm, causal, tanh GELU, tied head, as three functions of one model.

    forward   tokens in, logits at every position out; batch 1
    prefill   a prompt in, logits after its last token out; fills the caches
    decode    one token of every sequence in, the next logits out; appends a row to the caches and attends over the
              rows filled so far

Sizes: T tokens, B sequences, C width, L layers, H heads, D = C / H, F hidden width of the MLP, V vocabulary,
P positions; n rows of a cache are filled. All blocks share one body, which slices one layer from the stacked weights,
so the size of the text is independent of the depth.
"""

from collections.abc import Callable, Sequence
from functools import partial

from autotune.core.payload import Payload
from payload.config import GPT2, NANO, GPTConfig, with_parameters
from payload.dialect.ops.activations import GeluOp
from payload.dialect.ops.attention import AttentionOp, MergeHeadsOp, RopeOp, SplitHeadsOp
from payload.dialect.ops.cache import CacheAppendOp, CacheRowsOp
from payload.dialect.ops.linear import AddOp, LinearOp, RestoreOp
from payload.dialect.ops.norms import LayerNormOp
from payload.dialect.ops.tables import AsRowOp, EmbeddingOp, IndexOp, LayerOp, RowOp, RowsOp, ShiftOp
from payload.dialect.program import OpProgram, OpWriter, Ref
from payload.dialect.text import write_text
from payload.dialect.walk import evaluate, lower_text
from payload.gpt_graph import write_graph
from payload.interface import FUNCTIONS, arguments, defaults_of, make_payload, read_request
from payload.storage import SUMMED
from payload.weights import belongs_to_block

Weights = dict[str, Ref]
Mix = Callable[[Ref], Ref]
CACHES = ("keys", "values")


def forward(g: OpWriter, config: GPTConfig) -> list[Ref]:
    """Compute the logits at every position."""

    def iterate(layer: Ref, carried: list[Ref]) -> list[Ref]:
        return [block(g, take_block(g, layer), carried[0], partial(self_attention, g, config))]  # T x C

    (x,) = g.repeat(config.layers, [embed_text(g, config)], iterate)  # T x C
    return [predict(g, x)]  # T x V


def prefill(g: OpWriter, config: GPTConfig) -> list[Ref]:
    """Fill the first T rows of the caches with the prompt; compute the logits after token number ``length``."""

    def iterate(layer: Ref, carried: list[Ref]) -> list[Ref]:
        x, *caches = carried

        def mix(qkv: Ref) -> Ref:
            q, k, v = split(g, qkv, config)  # 3 of H x T x D
            for i, rows in enumerate((k, v)):
                caches[i] = g.one(CacheAppendOp(), caches[i], rows, layer, name=f"{CACHES[i]}_next")
            return attend_to_itself(g, q, k, v)  # T x C

        return [block(g, take_block(g, layer), x, mix), *caches]

    carried = [embed_text(g, config), g.given["keys"], g.given["values"]]  # T x C, 2 of L x H x P x D
    x, keys, values = g.repeat(config.layers, carried, iterate)
    last = g.one(ShiftOp(-1), g.one(IndexOp(), g.given["length"], name="length"), name="last")
    x = g.one(AsRowOp(), g.one(RowOp(), x, last, name="x_last"), name="x_row")  # 1 x C
    return [keys, values, predict(g, x)]  # 2 of L x H x P x D, 1 x V


def decode(g: OpWriter, config: GPTConfig) -> list[Ref]:
    """Append one row to the caches, at ``position``, and compute the logits after it."""
    position = g.one(IndexOp(), g.given["position"], name="position")
    filled = g.one(ShiftOp(1), position, name="filled")  # n
    x = g.one(EmbeddingOp(), matrix(g, g.given, "wte"), g.given["tokens"], name="token")  # B x C, from (V, C) at (B)
    if not config.rope:
        x = g.one(AddOp(), x, g.one(RowOp(), g.given["wpe"], position, name="place"), name="x")  # B x C, from (P, C)

    def iterate(layer: Ref, carried: list[Ref]) -> list[Ref]:
        x, *caches = carried

        def mix(qkv: Ref) -> Ref:
            q, k, v = g.several(SplitHeadsOp(config.heads, sequences=config.batch), qkv)  # 3 of BH x 1 x D
            if config.rope:
                q, k = (g.one(RopeOp(), part, position, name=f"{n}_turned") for part, n in ((q, "q"), (k, "k")))
            for i, row in enumerate((k, v)):
                caches[i] = g.one(CacheAppendOp(), caches[i], row, layer, position, name=f"{CACHES[i]}_next")
            k, v = (
                g.one(CacheRowsOp(), cache, layer, filled, name=f"{n}_past")  # BH x n x D
                for cache, n in zip(caches, "kv", strict=True)
            )
            return g.one(MergeHeadsOp(config.batch), g.one(AttentionOp(), q, k, v))  # B x C

        return [block(g, take_block(g, layer), x, mix), *caches]

    carried = [x, g.given["keys"], g.given["values"]]  # B x C, 2 of L x BH x P x D
    x, keys, values = g.repeat(config.layers, carried, iterate)
    return [keys, values, predict(g, x)]  # 2 of L x BH x P x D, B x V


def embed_text(g: OpWriter, config: GPTConfig) -> Ref:
    """Embed tokens from position 0 on; the position embedding is added unless positions are rotary."""
    x = g.one(EmbeddingOp(), matrix(g, g.given, "wte"), g.given["tokens"], name="token")  # T x C, from (V, C) at (T)
    if config.rope:
        return x
    return g.one(AddOp(), x, g.one(RowsOp(config.seq), g.given["wpe"], name="position"), name="x")  # T x C, from (P, C)


def block(g: OpWriter, w: Weights, x: Ref, mix: Mix) -> Ref:
    """Write one transformer block: attention, then MLP, each with a residual connection; T is B when decoding."""
    mixed = mix(linear(g, w, norm(g, w, x, "ln_1"), "qkv"))  # T x C, from T x 3C
    x = g.one(AddOp(), x, linear(g, w, mixed, "mix"), name="x_mixed")  # T x C
    hidden = g.one(GeluOp(), linear(g, w, norm(g, w, x, "ln_2"), "up"))  # T x F
    return g.one(AddOp(), x, linear(g, w, hidden, "down"), name="x_next")  # T x C


def norm(g: OpWriter, w: Weights, x: Ref, name: str) -> Ref:
    """Write one of the layer norms: ``T x C``."""
    return g.one(LayerNormOp(), x, w[f"{name}_gain"], w[f"{name}_bias"], name=name)


def linear(g: OpWriter, w: Weights, x: Ref, name: str) -> Ref:
    """Write one of the four linear layers of a block."""
    return g.one(LinearOp(), x, matrix(g, w, f"{name}_weight"), w[f"{name}_bias"], name=name)


def matrix(g: OpWriter, w: Weights, name: str) -> Ref:
    """Return a matrix, dequantized where it is stored in integers."""
    scale = w.get(f"{name}_scale")
    return w[name] if scale is None else g.one(RestoreOp(SUMMED[name] % 2), w[name], scale)


def predict(g: OpWriter, x: Ref) -> Ref:
    """Write the final norm and the head: logits ``T x V``; wte is (V, C)."""
    x = norm(g, g.given, x, "ln_f")  # T x C
    return g.one(LinearOp(transposed=True), x, matrix(g, g.given, "wte"), name="logits")


def split(g: OpWriter, qkv: Ref, config: GPTConfig) -> tuple[Ref, Ref, Ref]:
    """Split whole prompts into queries, keys and values: ``(T, 3C)`` to three ``(H, T, D)``."""
    q, k, v = g.several(SplitHeadsOp(config.heads), qkv)
    if config.rope:
        q, k = g.one(RopeOp(), q, name="q_turned"), g.one(RopeOp(), k, name="k_turned")
    return q, k, v


def self_attention(g: OpWriter, config: GPTConfig, qkv: Ref) -> Ref:
    """Write causal self-attention without a cache: ``(T, 3C)`` to ``(T, C)``."""
    return attend_to_itself(g, *split(g, qkv, config))


def attend_to_itself(g: OpWriter, q: Ref, k: Ref, v: Ref) -> Ref:
    """Write causal attention and merge the heads: three ``(H, T, D)`` to ``(T, C)``."""
    return g.one(MergeHeadsOp(), g.one(AttentionOp(causal=True), q, k, v))


def take_block(g: OpWriter, layer: Ref) -> Weights:
    """Slice the weights of one layer: every ``(L, ...)`` to ``(...)``."""
    names = [name for name in g.given if belongs_to_block(name)]
    return {name: g.one(LayerOp(), g.given[name], layer, name=f"{name}_here") for name in names}


BODIES = dict(zip(FUNCTIONS, (forward, prefill, decode), strict=True))


def write_program(config: GPTConfig, function: str = "forward") -> OpProgram:
    """Write a function of a model, in the dialect."""
    g = OpWriter(arguments(config, function))
    return g.program(function, BODIES[function](g, config))


def write_gpt(config: GPTConfig, functions: Sequence[str] = ("forward",)) -> str:
    """Write the MLIR module of a model with the given functions: linalg on tensors."""
    return lower_text(*(write_program(config, function) for function in functions))


def build(name: str, parameters: dict[str, str], preset: GPTConfig) -> Payload:
    """Build a GPT with a preset's sizes, overridden by `parameters`; see `payload.interface`.

    Raises:
        PayloadError: A parameter is unknown, a size is invalid, or the file does not hold these weights.
    """
    request = read_request(name, parameters, preset)
    program = write_program(request.config, request.function)
    graph = write_graph(request.config, request.function)
    return make_payload(request, lower_text(program), graph, write_text(program), partial(evaluate, program))


@with_parameters(defaults_of(NANO))
def nano(parameters: dict[str, str]) -> Payload:
    """The smallest model that has everything: 2 layers, 64 wide, 32 tokens."""
    return build("nano", parameters, NANO)


@with_parameters(defaults_of(GPT2))
def gpt2(parameters: dict[str, str]) -> Payload:
    """GPT-2 small: 12 layers, 768 wide, 128 tokens; ``gpt2,weights=model.safetensors`` for the real one."""
    return build("gpt2", parameters, GPT2)


@with_parameters(defaults_of(NANO))
def gpt(parameters: dict[str, str]) -> Payload:
    """Any sizes: ``gpt,d_model=72,heads=3``; what is not given is as in `nano`."""
    return build("gpt", parameters, NANO)
