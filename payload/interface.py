"""What callers of a GPT see: signatures of its functions, specs, sizes, inputs and oracles.

A spec changes any field of `GPTConfig`, and has besides

    function=forward|prefill|decode    what is computed; `payload.gpt` says what each is
    position=127                       of the decoded token; without it, four positions are measured
    positions=128|rope|rope:128        how many positions there are; rotary, without a table
    weights=FILE|bf16|int8|bf16:FILE   a Hugging Face file; how matrices are stored
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.host.readable import allow_reading
from autotune.core.ops.graph import Graph
from autotune.core.payload import Argument, Array, Case, Payload, random_array
from payload.config import (
    GPTConfig,
    check_known,
    read_number,
    read_numbers,
    read_positions,
    read_weights,
    write_positions,
    write_spec,
    write_weights,
)
from payload.rowwise import seen_pairs
from payload.storage import store_weights
from payload.weights import check_gpt2, declare, load_gpt2, random_weights

FUNCTIONS = ("forward", "prefill", "decode")
MEASURED_POSITIONS = (0, 127, 511, 1023)


@dataclass(frozen=True)
class Request:
    """What a spec asks for.

    Attributes:
        name: The canonical spec.
        config: Sizes of the model.
        function: One of `FUNCTIONS`.
        position: Position of the token to decode; `None` for several.
        path: File of the weights; empty for random ones.
    """

    name: str
    config: GPTConfig
    function: str
    position: int | None
    path: str


def defaults_of(preset: GPTConfig) -> dict[str, object]:
    """Every parameter of a model's spec, with what it is where it is not given."""
    sizes = {key: size for key, size in preset.numbers.items() if key != "positions"}
    texts = {"positions": str(preset.positions), "weights": "", "function": "forward", "position": ""}
    return {**sizes, **texts}


def read_request(name: str, parameters: dict[str, str], preset: GPTConfig) -> Request:
    """Read a spec's parameters; what is not given is as in `preset`.

    Raises:
        PayloadError: A parameter is unknown or impossible.
    """
    defaults = defaults_of(preset)
    sizes = {key: size for key, size in preset.numbers.items() if key != "positions"}
    check_known(name, parameters, defaults)
    numbers = read_numbers(name, {key: text for key, text in parameters.items() if key in sizes}, sizes)
    positions, rope = read_positions(parameters.get("positions", str(preset.positions)), preset.positions)
    storage, path = read_weights(parameters.get("weights", ""))
    function = parameters.get("function", "forward")
    if function not in FUNCTIONS:
        raise PayloadError(f"function must be one of {', '.join(FUNCTIONS)}; got {function!r}")
    if function == "decode":  # which has no prompt
        numbers["seq"] = 1
    config = replace(preset, **numbers, positions=positions, rope=rope, storage=storage)
    if function != "decode" and config.batch != 1:
        raise PayloadError(f"batch must be 1 but for function=decode, got {config.batch}; add function=decode")
    position = read_position(parameters.get("position", ""), function, config)
    if path:
        check_gpt2(path, config)
        allow_reading(path)
    values = {
        **config.numbers,
        **({"seq": preset.seq} if function == "decode" else {}),
        "positions": write_positions(config, preset.positions),
        "weights": write_weights(config, path),
        "function": function,
        "position": "" if position is None else str(position),
    }
    return Request(write_spec(name, values, defaults), config, function, position, path)


def read_position(text: str, function: str, config: GPTConfig) -> int | None:
    """The position to decode at.

    Raises:
        PayloadError: The spec names no such position, or nothing is decoded.
    """
    if not text:
        return None
    if function != "decode":
        raise PayloadError(f"position is for function=decode, got function={function}; leave it out")
    position = read_number("position", text, config.positions - 1)
    if not 0 <= position < config.positions:
        raise PayloadError(f"position must be from 0 to {config.positions - 1}, got {position}; change positions")
    return position


def arguments(config: GPTConfig, function: str = "forward") -> tuple[Argument, ...]:
    """The signature of a function: tokens, where they stand, every weight, the caches, and the logits."""
    count = config.batch if function == "decode" else config.seq
    rows = config.seq if function == "forward" else config.batch
    tokens = Argument("tokens", "input", (count,), "i32", low=0, high=config.vocab)
    logits = Argument("logits", "output", (rows, config.vocab))
    position_inputs = {
        "prefill": (Argument("length", "input", (1,), "i64", low=1, high=config.seq + 1),),
        "decode": (Argument("position", "input", (1,), "i64", low=0, high=config.positions),),
    }
    caches = () if function == "forward" else cache_arguments(config)
    return (tokens, *position_inputs.get(function, ()), *declare(config), *caches, logits)


def cache_arguments(config: GPTConfig) -> tuple[Argument, ...]:
    """Keys and values, ``(L, B H, P, D)`` each; the heads of one sequence lie together."""
    shape = (config.layers, config.batch * config.heads, config.positions, config.depth)
    return (Argument("keys", "state", shape), Argument("values", "state", shape))


def cases(request: Request) -> tuple[Case, ...]:
    """Where a function is verified and measured: a full prompt, and tokens at several positions."""
    config = request.config
    if request.function == "prefill":
        return (Case((("length", config.seq),)),)
    if request.function != "decode":
        return ()
    everywhere = sorted({min(position, config.positions - 1) for position in MEASURED_POSITIONS})
    chosen = everywhere if request.position is None else [request.position]
    return tuple(Case((("position", position),)) for position in chosen)


def count_flops(request: Request) -> float:
    """Multiplications and additions of all contractions of a call; of attention what the causal mask leaves.

    Norms, softmax, GELU and sums are left out: below one percent at GPT-2's sizes. Several cases are added up.
    """
    config, wide = request.config, request.config.d_model
    rows = config.batch if request.function == "decode" else config.seq
    heads = config.seq if request.function == "forward" else config.batch
    linears = 2 * rows * wide * (3 * wide + wide + 2 * config.d_ff)  # qkv, mix, up, down
    head = 2 * heads * wide * config.vocab
    pairs = [seen_pairs(config.seq)]
    if request.function == "decode":
        pairs = [rows * (value + 1) for case in cases(request) for _, value in case.values]
    attention = (2 * 2 * seen * wide for seen in pairs)  # q k^T and probabilities v, all heads
    return float(sum(config.layers * (linears + each) + head for each in attention))


def longest_sum(config: GPTConfig, function: str = "forward") -> int:
    """The longest single sum: the widest contraction or row.

    Sums of successive blocks are not added up: every block normalizes its input, and errors hardly grow with depth.
    """
    return max(config.d_model, config.d_ff, config.positions if function == "decode" else config.seq)


def make_inputs(request: Request, seed: int) -> dict[str, Array]:
    """Random tokens and caches, and the weights: of a file, or random ones.

    Those depend on sizes and seed alone, not on the function, nor on how they are stored.
    """
    config = request.config
    rng = np.random.default_rng(seed)
    declared = arguments(config, request.function)
    found = {a.name: random_array(a, rng) for a in declared if a.role in ("input", "state")}
    if request.path:
        return {**found, **load_gpt2(request.path, config)}
    return {**found, **store_weights(random_weights(config, seed), config)}


def make_payload(
    request: Request, text: str, graph: Graph, dialect: str, oracle: Callable[..., tuple[Array, ...]]
) -> Payload:
    """The payload of a function.

    Args:
        request: What the spec asks for.
        text: Linalg on tensors.
        graph: What comparators translate.
        dialect: The same in the dialect.
        oracle: What its ops mean, in float64.
    """
    config = request.config
    return Payload(
        name=request.name,
        text=text,
        entry=request.function,
        arguments=arguments(config, request.function),
        flops=count_flops(request),
        reference=oracle,
        inputs=partial(make_inputs, request),
        reduction=longest_sum(config, request.function),
        graph=graph,
        cases=cases(request),
        dialect=dialect,
    )
