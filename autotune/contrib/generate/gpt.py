"""Generating tokens with a GPT: with caches, by one prefill and a decode a token, or by whole forward passes.

Choosing tokens: greedy, or drawn at a temperature from the likeliest (Fan et al., 2018, top-k; Holtzman et al., 2020,
top-p).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from autotune.contrib.generate.generator import Function, GenerationRequest, Load, Sampling
from autotune.core.errors import GenerationError
from autotune.core.payload import Array, Payload
from payload import gpt
from payload.config import GPT2, NANO, GPTConfig
from payload.interface import read_request

PRESETS = {"nano": NANO, "gpt2": GPT2, "gpt": NANO}
LEAST_PROMPT = 16  # prompts are filled up to a power of two from here on: few functions to compile
FIRST_LOOK = 4096  # tokens that are sorted to find those that reach top_p, if they do
COLDEST = 1e-30  # temperature; below it, an f32 is zero
GRAIN = 32  # a forward pass without caches is compiled for every multiple of this


class Model(Protocol):
    """What tokens are drawn from."""

    def start(self, prompt: Sequence[int]) -> Array:
        """Give the logits ``(V)`` behind a prompt; what was before is forgotten."""
        ...

    def step(self, token: int) -> Array:
        """Give the logits ``(V)`` behind one more token."""
        ...


class CachedModel:
    """A language model that keeps keys and values: one prefill, then a decode a token.

    Attributes:
        vocab: Tokens there are.
        rows: Rows of the caches.
        filled: Rows of the caches that are in use.
    """

    def __init__(self, vocab: int, rows: int, decode: Function, prefill: Function | None = None, room: int = 1) -> None:
        """Take the two functions.

        Args:
            vocab: Tokens there are.
            rows: Rows of the caches.
            decode: Appends a token at a position; gives logits ``(1, V)``.
            prefill: Fills the caches from `room` tokens, of which so many count; `None` where prompts are of one.
            room: Most tokens of a prompt.
        """
        self.vocab, self.rows, self.filled = vocab, rows, 0
        self._decode, self._prefill, self._room = decode, prefill, room

    def start(self, prompt: Sequence[int]) -> Array:
        """Fill the caches.

        Raises:
            GenerationError: The prompt is empty or too long, or has a token that is none; the caches stay as they were.
        """
        if not 1 <= len(prompt) <= self._room:
            raise GenerationError(f"a prompt must have 1 to {self._room} tokens here, got {len(prompt)}; cut it")
        check_tokens(prompt, self.vocab)
        if self._prefill is None:
            self.filled = 0
            return self.step(prompt[0])
        tokens = np.zeros(self._room, np.int32)
        tokens[: len(prompt)] = prompt
        (logits,) = self._prefill(tokens=tokens, length=np.array([len(prompt)]))
        self.filled = len(prompt)
        return np.asarray(logits[0])

    def step(self, token: int) -> Array:
        """Append a row to the caches.

        Raises:
            GenerationError: The caches are full, or the token is none; they stay as they were.
        """
        if self.filled >= self.rows:
            raise GenerationError(f"the cache must have a free row, all {self.rows} are filled; generate fewer tokens")
        check_tokens([token], self.vocab)
        (logits,) = self._decode(tokens=np.array([token], np.int32), position=np.array([self.filled]))
        self.filled += 1
        return np.asarray(logits[0])


class PlainModel:
    """A GPT that computes everything anew for every token."""

    def __init__(self, config: GPTConfig, load: Callable[[str, int], Function], lengths: range) -> None:
        """Compile a forward pass for every multiple of `GRAIN` that texts of these lengths need."""
        self.config = config
        self._load = load
        self._forwards = {
            room: load("forward", room) for room in dict.fromkeys(forward_room(n, config) for n in lengths)
        }
        self._tokens: list[int] = []

    def start(self, prompt: Sequence[int]) -> Array:
        """Forget what was, and see the prompt.

        Raises:
            GenerationError: The text is empty or gets too long, or has a token that is none.
        """
        check_tokens(prompt, self.config.vocab)
        check_length(len(prompt), self.config)
        room = forward_room(len(prompt), self.config)
        if room not in self._forwards:
            self._forwards[room] = self._load("forward", room)
        tokens = np.zeros(room, np.int32)
        tokens[: len(prompt)] = prompt
        (logits,) = self._forwards[room](tokens=tokens)
        self._tokens = list(prompt)
        return np.asarray(logits[len(prompt) - 1])

    def step(self, token: int) -> Array:
        """See all tokens so far and one more.

        Raises:
            GenerationError: The text gets too long, or the token is none.
        """
        return self.start([*self._tokens, token])


def cached_gpt(config: GPTConfig, load: Callable[[str, int], Function], longest_prompt: int) -> CachedModel:
    """A GPT that keeps keys and values, compiled.

    Args:
        config: Sizes of the model.
        load: Compiles a function by name, for so many tokens.
        longest_prompt: Longest prompt to expect.
    """
    room = prompt_room(longest_prompt, config.positions)
    prefill, decode = load("prefill", room), load("decode", room)
    return CachedModel(config.vocab, config.positions, decode, prefill, room)


def prompt_room(count: int, rows: int) -> int:
    """Tokens that a prefill for prompts of `count` tokens is compiled for, where caches have so many rows."""
    return min(rows, max(LEAST_PROMPT, 1 << (count - 1).bit_length()))


def forward_room(count: int, config: GPTConfig) -> int:
    """Tokens that a forward pass for texts of `count` tokens is compiled for."""
    return min(config.positions, -(-count // GRAIN) * GRAIN)


def check_length(count: int, config: GPTConfig) -> None:
    """Raise unless there is a token, and the model has so many positions."""
    if count < 1:
        raise GenerationError("a prompt must have at least one token, it has none; give one")
    if count > config.positions:
        raise GenerationError(
            f"prompt and new tokens must fit {config.positions} positions, they are {count}; generate fewer"
        )


def check_tokens(tokens: Sequence[int], vocab: int) -> None:
    """Raise unless all tokens are whole numbers below `vocab`."""
    for token in tokens:
        if not isinstance(token, (int, np.integer)):
            raise GenerationError(f"tokens must be whole numbers, got {token!r}; convert it")
        if not 0 <= token < vocab:
            raise GenerationError(f"tokens must be from 0 to {vocab - 1}, got {token}; choose another")


def choose_token(logits: Array, sampling: Sampling, rng: np.random.Generator) -> int:
    """The next token.

    Args:
        logits: ``(V)``.
        sampling: Rule to choose by.
        rng: Draws, where it is not the likeliest.
    """
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    kept = largest(logits, sampling.top_k) if sampling.top_k else None
    weights = soften(logits if kept is None else logits[kept], sampling.temperature)
    if sampling.top_p < 1:
        likely = nucleus(weights, sampling.top_p)
        kept, weights = likely if kept is None else kept[likely], weights[likely]
    sums = np.cumsum(weights)
    position = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(sums) - 1)
    return position if kept is None else int(kept[position])


def soften(logits: Array, temperature: float) -> Array:
    """Weights in proportion to the probabilities; 1 for the likeliest."""
    with np.errstate(over="ignore"):  # what is beyond all numbers below the likeliest has the weight 0
        weights = (logits - logits.max()) / np.float32(max(temperature, COLDEST))
    return np.asarray(np.exp(weights, out=weights))


def nucleus(weights: Array, share: float) -> Array:
    """Positions of the largest weights, falling, as few as reach a share of the sum."""
    needed, positions = share * float(weights.sum()), largest(weights, FIRST_LOOK)
    if weights[positions].sum() < needed:
        positions = largest(weights, len(weights))
    before = np.cumsum(weights[positions]) - weights[positions]  # the first that reaches the share is kept
    return np.asarray(positions[before < needed])


def largest(values: Array, count: int) -> Array:
    """Positions of the `count` largest, falling. Nothing else is sorted: that would take milliseconds a token."""
    positions = np.argpartition(values, -count)[-count:] if count < len(values) else np.arange(len(values))
    return np.asarray(positions[np.argsort(-values[positions])])


def stream(model: Model, request: GenerationRequest) -> Iterator[int]:
    """New tokens, one by one, up to `max_new` or a stop token."""
    rng = np.random.default_rng(request.sampling.seed)
    token = choose_token(model.start(request.prompt), request.sampling, rng)
    yield token
    for _ in range(request.max_new - 1):
        if token in request.stop:
            return
        token = choose_token(model.step(token), request.sampling, rng)
        yield token


def generate(
    model: Model, request: GenerationRequest, on_token: Callable[[int], None] = lambda token: None
) -> list[int]:
    """All new tokens; `on_token` is called with each as soon as it is known."""
    tokens = []
    for token in stream(model, request):
        on_token(token)
        tokens.append(token)
    return tokens


def open_gpt(name: str, parameters: dict[str, str], request: GenerationRequest, load: Load) -> Iterator[int]:
    """Generate tokens by a compiled GPT; see `autotune.contrib.generate.generator.Generator`."""
    for key in ("function", "position", "batch"):
        if key in parameters:
            raise GenerationError(f"parameters of a model to generate with have no {key!r}, got one; leave it out")
    config = read_request(name, {**parameters, "function": "decode"}, PRESETS[name]).config
    check_tokens(request.prompt, config.vocab)
    check_length(len(request.prompt) + request.max_new - 1, config)

    def load_function(function: str, tokens: int) -> Function:
        return load(make_function(name, parameters, function, tokens))

    if request.cached:
        return stream(cached_gpt(config, load_function, len(request.prompt)), request)
    lengths = range(len(request.prompt), len(request.prompt) + request.max_new)
    return stream(PlainModel(config, load_function, lengths), request)


def make_function(name: str, parameters: dict[str, str], function: str, tokens: int) -> Payload:
    """One function of a model; prompts are of `tokens` tokens."""
    sizes = {**parameters, "function": function}
    if function != "decode":
        sizes["seq"] = str(tokens)
    return gpt.build(name, sizes, PRESETS[name])
