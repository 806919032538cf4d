"""GPT-2 in one file: tokens in, logits at every position out; pre-norm, causal, tanh GELU, tied head; batch 1, f32.

Sizes: T tokens, C width, L layers, H heads, D = C / H, F hidden width of the MLP, V tokens there are, P positions.
All blocks share one body: an ``scf.for`` over layers slices the stacked weights, so the text does not grow with depth.
"""

from dataclasses import asdict, replace
from functools import partial

import numpy as np

from autotune.task import Argument, Array, Payload, random_array
from payload import ops, reference, rowwise
from payload.builder import Builder, Value, for_each, write_module
from payload.config import GPT2, NANO, GPTConfig, check_known, read_numbers, write_spec
from payload.weights import BLOCK, check_gpt2, declare, load_gpt2

ENTRY = "forward"


def forward(f: Builder, w: dict[str, Value], config: GPTConfig) -> Value:
    """Logits of the model."""
    token = rowwise.embed(f, w["wte"], w["tokens"], "token")  # T x C, from (V, C) at (T)
    position = ops.take_rows(f, w["wpe"], config.seq, "position")  # T x C, from (P, C)
    x = ops.add(f, token, position, "x")  # T x C

    def iterate(layer: str, x: Value) -> Value:
        mine = {name: ops.take_layer(f, w[name], layer, f"{name}_here") for name in BLOCK}  # every (L, ...) to (...)
        return block(f, mine, x, config)  # T x C

    x = for_each(f, config.layers, x, iterate)  # T x C
    x = rowwise.layer_norm(f, x, w["ln_f_gain"], w["ln_f_bias"], "ln_f")  # T x C
    return ops.matmul(f, x, w["wte"], "logits", transpose_b=True)  # T x V, wte is (V, C)


def block(f: Builder, w: dict[str, Value], x: Value, config: GPTConfig) -> Value:
    """One transformer block: communicate, then compute."""
    normed = rowwise.layer_norm(f, x, w["ln_1_gain"], w["ln_1_bias"], "ln_1")  # T x C
    x = ops.add(f, x, attend(f, w, normed, config), "x_mixed")  # T x C
    normed = rowwise.layer_norm(f, x, w["ln_2_gain"], w["ln_2_bias"], "ln_2")  # T x C
    return ops.add(f, x, mlp(f, w, normed), "x_next")  # T x C


def attend(f: Builder, w: dict[str, Value], x: Value, config: GPTConfig) -> Value:
    """Causal self-attention."""
    width, heads = config.d_model, config.heads
    qkv = ops.linear(f, x, w["qkv_weight"], w["qkv_bias"], "qkv")  # T x 3C
    parts = [ops.take_columns(f, qkv, i * width, width, f"{n}_flat") for i, n in enumerate("qkv")]  # 3 of T x C
    q, k, v = (ops.split_heads(f, part, heads, n) for part, n in zip(parts, "qkv", strict=True))  # 3 of H x T x D
    mixed = rowwise.attention(f, q, k, v, "attention", causal=True)  # H x T x D
    merged = ops.merge_heads(f, mixed, "merged")  # T x C
    return ops.linear(f, merged, w["mix_weight"], w["mix_bias"], "mix")  # T x C


def mlp(f: Builder, w: dict[str, Value], x: Value) -> Value:
    """Two linear layers with GELU between them."""
    hidden = ops.linear(f, x, w["up_weight"], w["up_bias"], "up")  # T x F
    hidden = ops.gelu(f, hidden, "gelu")  # T x F
    return ops.linear(f, hidden, w["down_weight"], w["down_bias"], "down")  # T x C


def arguments(config: GPTConfig) -> tuple[Argument, ...]:
    """Tokens, every weight, and the logits: the signature of the entry function."""
    tokens = Argument("tokens", "input", (config.seq,), "i32", low=0, high=config.vocab)
    return (tokens, *declare(config), Argument("logits", "output", (config.seq, config.vocab)))


def write_gpt(config: GPTConfig) -> str:
    """The MLIR module of a config."""
    return write_module(ENTRY, arguments(config), partial(forward, config=config))


def count_flops(config: GPTConfig) -> float:
    """Multiplications and additions of all contractions; of attention what the causal mask leaves.

    Norms, softmax, GELU and sums are left out: below one percent at GPT-2's sizes.
    """
    rows, wide = config.seq, config.d_model
    linears = 2 * rows * wide * (3 * wide + wide + 2 * config.d_ff)  # qkv, mix, up, down
    attention = 2 * 2 * rowwise.seen_pairs(rows) * wide  # q k^T and probabilities v, all heads
    head = 2 * rows * wide * config.vocab
    return float(config.layers * (linears + attention) + head)


def longest_sum(config: GPTConfig) -> int:
    """The longest single sum: the widest contraction or row.

    Sums of successive blocks are not added up: every block normalizes its input, and errors hardly grow with depth.
    """
    return max(config.d_model, config.d_ff, config.seq)


def real_inputs(path: str, config: GPTConfig, seed: int) -> dict[str, Array]:
    """Random tokens and the weights of a file; `Payload.inputs` once `path` and `config` are bound."""
    tokens = random_array(arguments(config)[0], np.random.default_rng(seed))
    return {"tokens": tokens, **load_gpt2(path, config)}


def build(name: str, parameters: dict[str, str], preset: GPTConfig) -> Payload:
    """A GPT of a preset's sizes, changed by `parameters`: any field of `GPTConfig`, and ``weights=FILE``.

    Raises:
        PayloadError: A parameter is unknown, a size is impossible, or the file does not hold these weights.
    """
    sizes = asdict(preset)
    defaults: dict[str, object] = {**sizes, "weights": ""}
    check_known(name, parameters, defaults)
    path = parameters.get("weights", "")
    numbers = {key: text for key, text in parameters.items() if key != "weights"}
    config = replace(preset, **read_numbers(name, numbers, sizes))
    if path:
        check_gpt2(path, config)
    return Payload(
        name=write_spec(name, {**asdict(config), "weights": path}, defaults),
        text=write_gpt(config),
        entry=ENTRY,
        arguments=arguments(config),
        flops=count_flops(config),
        reference=partial(reference.outputs_of, partial(reference.forward, config)),
        inputs=partial(real_inputs, path, config) if path else None,
        reduction=longest_sum(config),
        kind="gpt",
        sizes=tuple(asdict(config).items()),
    )


def nano(parameters: dict[str, str]) -> Payload:
    """The smallest model that has everything: 2 layers, 64 wide, 32 tokens."""
    return build("nano", parameters, NANO)


def gpt2(parameters: dict[str, str]) -> Payload:
    """GPT-2 small: 12 layers, 768 wide, 128 tokens; ``gpt2,weights=model.safetensors`` for the real one."""
    return build("gpt2", parameters, GPT2)


def gpt(parameters: dict[str, str]) -> Payload:
    """Any sizes: ``gpt,d_model=72,heads=3``; what is not given is as in `nano`."""
    return build("gpt", parameters, NANO)
