"""Token generation with an imported language model, whose importer creates a prefill and a decode function.

Such payloads are recognized by their arguments: ``tokens`` with a ``length`` or a ``position``, caches ``keys`` and
``values``, and ``logits``. The importer writes the file's own tokenizer beside them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autotune.contrib.generate.generator import GenerationRequest, Load
from autotune.contrib.generate.gpt import CachedModel, prompt_room, stream
from autotune.core.errors import GenerationError
from autotune.core.payload import Payload
from autotune.registry import IMPORTERS, registered
from autotune.tuning.tunable import payload as payload_of
from autotune.worker.loading.imports import import_once

LEAST_ROOM = 16  # least rows of caches; larger ones are powers of two, to compile few functions
TOKENIZER, ENDS = "tokenizer.json", "generation.json"
ROLES = {"tokens": "input", "position": "input", "keys": "state", "values": "state", "logits": "output"}


def is_imported(name: str) -> bool:
    """Return whether a model is a file that an importer reads."""
    return Path(name).suffix.removeprefix(".") in registered(IMPORTERS)


def room_for(count: int) -> int:
    """Return the number of cache rows for a number of tokens."""
    return max(LEAST_ROOM, 1 << (count - 1).bit_length())


def decode_folder(name: str, rows: str) -> Path:
    """Return the folder of the imported decode function for a number of cache rows."""
    return import_once(f"{name},tokens=1,positions={rows}")


def ends_of(folder: Path) -> frozenset[int]:
    """Return the stop tokens that the model file defines."""
    path = folder / ENDS
    return frozenset(map(int, json.loads(path.read_text(encoding="utf-8"))["stop"])) if path.is_file() else frozenset()


def tokenizer_of(folder: Path, name: str) -> Path:
    """Return the path of the tokenizer in the model file.

    Raises:
        GenerationError: The file has no tokenizer.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        raise GenerationError(
            f"a prompt of text needs a tokenizer, {name} has none; pass --tokenizer or --prompt-tokens"
        )
    return path


def open_cached(name: str, prompt: int, rows: str, load: Load) -> CachedModel:
    """Compile an imported model with a key-value cache.

    Args:
        name: Path of the file.
        prompt: Number of tokens of the prompt.
        rows: Rows of the caches.
        load: Function that compiles a payload.

    Raises:
        GenerationError: The file is not a language model.
    """
    decode = payload_of(decode_folder(name, rows))
    check_language_model(decode, name)
    most = next(a.shape[-2] for a in decode.arguments if a.name == "keys")
    vocab = next(a.shape[-1] for a in decode.arguments if a.name == "logits")
    if prompt <= 1:
        return CachedModel(vocab, most, load(decode))
    room = prompt_room(prompt, most)
    prefill = payload_of(import_once(f"{name},tokens={room},positions={most}"))
    return CachedModel(vocab, most, load(decode), load(prefill), room)


def check_language_model(payload: Payload, name: str) -> None:
    """Check that a payload is a decode function of a language model."""
    roles = {argument.name: argument.role for argument in payload.arguments}
    if any(roles.get(argument) != role for argument, role in ROLES.items()):
        raise GenerationError(f"a model must take tokens and keep their keys and values, {name} does not; try nano")


def open_imported(name: str, parameters: dict[str, str], request: GenerationRequest, load: Load) -> Iterator[int]:
    """Compile an imported model for a request and return its new tokens; see `generator.Generator`."""
    for key in parameters.keys() - {"positions"}:
        raise GenerationError(f"the parameter of a model's file must be positions, got {key!r}; leave it out")
    if not request.cached:
        raise GenerationError(
            f"a model's file is generated with by its caches, {name} has no other way; drop --no-cache"
        )
    count = len(request.prompt) + request.max_new
    model = open_cached(name, len(request.prompt), parameters.get("positions", str(room_for(count))), load)
    if model.rows < count:
        raise GenerationError(
            f"prompt and new tokens must fit {model.rows} positions, they are {count}; generate fewer"
        )
    return stream(model, request)


class TextStream:
    """Incremental decoder from tokens to text.

    Args:
        coder: Tokenizer.
    """

    def __init__(self, coder: Any) -> None:  # noqa: ANN401 - of a library that is an extra
        self._coder, self._tokens, self._emitted = coder, list[int](), 0

    def take(self, token: int) -> str:
        """Return the text that a token adds; empty while a character is incomplete."""
        self._tokens.append(token)
        text = str(self._coder.decode(self._tokens))
        if text.endswith("\ufffd"):
            return ""
        fresh, self._emitted = text[self._emitted :], len(text)
        return fresh
