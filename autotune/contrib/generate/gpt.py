"""Token generation with a GPT: by one prefill and one decode step per token with a key-value cache, or without a cache.

Tokens are chosen greedily, or sampled at a temperature from the most likely ones (Fan et al., 2018, top-k; Holtzman et
al., 2020, top-p).
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
LEAST_PROMPT = 16  # prompts are padded to powers of two from here on, to compile few functions
FIRST_LOOK = 4096  # tokens sorted first to find those that reach top_p
COLDEST = 1e-30  # least temperature; a smaller one may underflow in f32
GRAIN = 32  # a forward pass without a cache is compiled for multiples of this length


class Model(Protocol):
    """Language model that yields logits."""

    def start(self, prompt: Sequence[int]) -> Array:
        """Return the logits ``(V)`` after a prompt; earlier tokens are forgotten."""
        ...

    def step(self, token: int) -> Array:
        """Append a token and return the logits ``(V)`` after it."""
        ...


class CachedModel:
    """Language model with a key-value cache: one prefill, then one decode step per token.

    Attributes:
        vocab: Size of the vocabulary.
        rows: Rows of the caches, one per position.
        filled: Number of rows in use.
    """

    def __init__(self, vocab: int, rows: int, decode: Function, prefill: Function | None = None, room: int = 1) -> None:
        """Create a model from compiled functions.

        Args:
            vocab: Size of the vocabulary.
            rows: Rows of the caches.
            decode: Function that appends a token at a position and returns logits ``(1, V)``.
            prefill: Function that fills the caches from `room` tokens, padding included; `None` for one-token prompts.
            room: Maximum number of tokens of a prompt.
        """
        self.vocab, self.rows, self.filled = vocab, rows, 0
        self._decode, self._prefill, self._room = decode, prefill, room

    def start(self, prompt: Sequence[int]) -> Array:
        """Fill the caches from a prompt.

        Raises:
            GenerationError: The prompt is empty or too long, or has an invalid token; the caches are unchanged.
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
        """Append a token to the caches.

        Raises:
            GenerationError: The caches are full or the token is invalid; the caches are unchanged.
        """
        if self.filled >= self.rows:
            raise GenerationError(f"the cache must have a free row, all {self.rows} are filled; generate fewer tokens")
        check_tokens([token], self.vocab)
        (logits,) = self._decode(tokens=np.array([token], np.int32), position=np.array([self.filled]))
        self.filled += 1
        return np.asarray(logits[0])


class PlainModel:
    """GPT without a cache, which runs a whole forward pass for every token."""

    def __init__(self, config: GPTConfig, load: Callable[[str, int], Function], lengths: range) -> None:
        """Compile a forward pass for every multiple of `GRAIN` that sequences of these lengths need."""
        self.config = config
        self._load = load
        self._forwards = {
            room: load("forward", room) for room in dict.fromkeys(forward_room(n, config) for n in lengths)
        }
        self._tokens: list[int] = []

    def start(self, prompt: Sequence[int]) -> Array:
        """Run the forward pass of a prompt; earlier tokens are forgotten.

        Raises:
            GenerationError: The sequence is empty or too long, or has an invalid token.
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
        """Run the forward pass of all tokens so far and one more.

        Raises:
            GenerationError: The sequence is too long, or the token is invalid.
        """
        return self.start([*self._tokens, token])


def cached_gpt(config: GPTConfig, load: Callable[[str, int], Function], longest_prompt: int) -> CachedModel:
    """Compile a GPT with a key-value cache.

    Args:
        config: Sizes of the model.
        load: Function that compiles a function of the model by name and number of tokens.
        longest_prompt: Length of the longest prompt to expect.
    """
    room = prompt_room(longest_prompt, config.positions)
    prefill, decode = load("prefill", room), load("decode", room)
    return CachedModel(config.vocab, config.positions, decode, prefill, room)


def prompt_room(count: int, rows: int) -> int:
    """Return the padded length for which a prefill of `count` tokens is compiled, at most `rows`."""
    return min(rows, max(LEAST_PROMPT, 1 << (count - 1).bit_length()))


def forward_room(count: int, config: GPTConfig) -> int:
    """Return the padded length for which a forward pass of `count` tokens is compiled."""
    return min(config.positions, -(-count // GRAIN) * GRAIN)


def check_length(count: int, config: GPTConfig) -> None:
    """Check that a sequence is not empty and fits the positions of a model."""
    if count < 1:
        raise GenerationError("a prompt must have at least one token, it has none; give one")
    if count > config.positions:
        raise GenerationError(
            f"prompt and new tokens must fit {config.positions} positions, they are {count}; generate fewer"
        )


def check_tokens(tokens: Sequence[int], vocab: int) -> None:
    """Check that all tokens are integers from 0 to ``vocab - 1``."""
    for token in tokens:
        if not isinstance(token, (int, np.integer)):
            raise GenerationError(f"tokens must be whole numbers, got {token!r}; convert it")
        if not 0 <= token < vocab:
            raise GenerationError(f"tokens must be from 0 to {vocab - 1}, got {token}; choose another")


def choose_token(logits: Array, sampling: Sampling, rng: np.random.Generator) -> int:
    """Choose the next token.

    Args:
        logits: Logits ``(V)``.
        sampling: Sampling options.
        rng: Random generator for temperatures above 0.
    """
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    candidates = largest(logits, sampling.top_k) if sampling.top_k else None
    weights = soften(logits if candidates is None else logits[candidates], sampling.temperature)
    if sampling.top_p < 1:
        likely = nucleus(weights, sampling.top_p)
        candidates, weights = likely if candidates is None else candidates[likely], weights[likely]
    sums = np.cumsum(weights)
    position = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(sums) - 1)
    return position if candidates is None else int(candidates[position])


def soften(logits: Array, temperature: float) -> Array:
    """Return unnormalized softmax weights; the most likely token has weight 1."""
    with np.errstate(over="ignore"):  # an overflow to -inf gives weight 0
        weights = (logits - logits.max()) / np.float32(max(temperature, COLDEST))
    return np.asarray(np.exp(weights, out=weights))


def nucleus(weights: Array, share: float) -> Array:
    """Return the positions of the fewest largest weights that reach a share of the sum, in descending order."""
    needed, positions = share * float(weights.sum()), largest(weights, FIRST_LOOK)
    if weights[positions].sum() < needed:
        positions = largest(weights, len(weights))
    before = np.cumsum(weights[positions]) - weights[positions]  # the first that reaches the share is kept
    return np.asarray(positions[before < needed])


def largest(values: Array, count: int) -> Array:
    """Return the positions of the `count` largest values, in descending order.

    Only these are sorted; sorting the whole vocabulary would take milliseconds per token.
    """
    positions = np.argpartition(values, -count)[-count:] if count < len(values) else np.arange(len(values))
    return np.asarray(positions[np.argsort(-values[positions])])


def stream(model: Model, request: GenerationRequest) -> Iterator[int]:
    """Yield new tokens one by one, up to `max_new` or a stop token."""
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
    """Return all new tokens; call `on_token` with each as soon as it is known."""
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
    """Build the payload of one function of a model for `tokens` tokens."""
    sizes = {**parameters, "function": function}
    if function != "decode":
        sizes["seq"] = str(tokens)
    return gpt.build(name, sizes, PRESETS[name])
