"""Public interface of the GPT payloads: signatures of the functions, specs, sizes, inputs and references.

A spec may set any field of `GPTConfig`, and in addition

    function=forward|prefill|decode    function to compute, as described in `payload.gpt`
    position=127                       position of the decoded token; by default four positions are measured
    positions=128|rope|rope:128        number of positions; with rope, rotary ones without a table
    weights=FILE|bf16|int8|bf16:FILE   Hugging Face file of the weights, and how matrices are stored
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
    """Parsed spec.

    Attributes:
        name: The canonical spec.
        config: Sizes of the model.
        function: One of `FUNCTIONS`.
        position: Position of the token to decode; `None` for `MEASURED_POSITIONS`.
        path: File of the weights; empty for random ones.
    """

    name: str
    config: GPTConfig
    function: str
    position: int | None
    path: str


def defaults_of(preset: GPTConfig) -> dict[str, object]:
    """Return every parameter of a model's spec with its default."""
    sizes = {key: size for key, size in preset.numbers.items() if key != "positions"}
    texts = {"positions": str(preset.positions), "weights": "", "function": "forward", "position": ""}
    return {**sizes, **texts}


def read_request(name: str, parameters: dict[str, str], preset: GPTConfig) -> Request:
    """Parse a spec's parameters; missing ones are as in `preset`.

    Raises:
        PayloadError: A parameter is unknown or invalid.
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
    if function == "decode":  # one token per sequence, no prompt
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
    """Parse the position to decode at.

    Raises:
        PayloadError: The position is out of range, or the function is not ``decode``.
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
    """Return the signature of a function: tokens, their positions, every weight, the caches, and the logits."""
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
    """Return the caches of keys and values, ``(L, B H, P, D)`` each; heads of one sequence are adjacent."""
    shape = (config.layers, config.batch * config.heads, config.positions, config.depth)
    return (Argument("keys", "state", shape), Argument("values", "state", shape))


def cases(request: Request) -> tuple[Case, ...]:
    """Return the cases a function is verified and measured in: a full prompt, or tokens at several positions."""
    config = request.config
    if request.function == "prefill":
        return (Case((("length", config.seq),)),)
    if request.function != "decode":
        return ()
    default_positions = sorted({min(position, config.positions - 1) for position in MEASURED_POSITIONS})
    positions = default_positions if request.position is None else [request.position]
    return tuple(Case((("position", position),)) for position in positions)


def count_flops(request: Request) -> float:
    """Count multiplications and additions of all contractions of a call; causal attention counts unmasked pairs only.

    Norms, softmax, GELU and sums are ignored: they are below one percent at GPT-2's sizes. The counts of several cases
    are added up.
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
    """Return the length of the longest single sum: the widest contraction or row.

    Lengths of successive blocks are not added up: every block normalizes its input, so errors hardly grow with depth.
    """
    return max(config.d_model, config.d_ff, config.positions if function == "decode" else config.seq)


def make_inputs(request: Request, seed: int) -> dict[str, Array]:
    """Return random tokens and caches, and the weights, from the file or random.

    Random weights depend on sizes and seed alone, neither on the function nor on how they are stored.
    """
    config = request.config
    rng = np.random.default_rng(seed)
    declared = arguments(config, request.function)
    inputs = {a.name: random_array(a, rng) for a in declared if a.role in ("input", "state")}
    if request.path:
        return {**inputs, **load_gpt2(request.path, config)}
    return {**inputs, **store_weights(random_weights(config, seed), config)}


def make_payload(
    request: Request, text: str, graph: Graph, dialect: str, oracle: Callable[..., tuple[Array, ...]]
) -> Payload:
    """Return the payload of a function.

    Args:
        request: Parsed spec.
        text: MLIR of the function, linalg on tensors.
        graph: Graph of the function, for comparators.
        dialect: MLIR of the function in the dialect `gpt`.
        oracle: Reference of the function, in float64.
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
