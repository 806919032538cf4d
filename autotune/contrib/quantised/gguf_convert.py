"""Converter of GGUF files, which runs in a process of its own because the file is untrusted.

``python -m autotune.contrib.quantised.gguf_convert MODEL FOLDER [NAME=SIZE ...]``
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from autotune.contrib.quantised.gguf_file import GGUFFile, read_gguf
from autotune.contrib.quantised.gguf_tokenizer import OtherTokenizerError, ends_of, write_tokenizer
from autotune.contrib.quantised.llama import arguments, write_llama
from autotune.contrib.quantised.llama_config import LlamaConfig, read_config
from autotune.contrib.quantised.llama_reference import LlamaReference
from autotune.contrib.quantised.llama_weights import LlamaWeights, take_weights
from autotune.core.host.tensor_file import hash_file
from autotune.core.payload import Argument, Array
from autotune.core.plugs.imported import SEEDS, ImportedModel, ModelArgument
from payload.importers.converter import run_converter, say_stage
from payload.importers.folder import versions_of, weight_argument, write_folder

ORACLE = "NumPy in float64, of the weights as their formats define them"


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Import a model and write its folder.

    Args:
        path: File of the model.
        folder: Folder to write.
        sizes: Tokens per call, 1 to decode, and positions of the caches.

    Raises:
        UnsupportedError: The file is damaged, or holds a model of another architecture.
    """
    say_stage(f"importing {path.name}: reading it")
    file = read_gguf(path)
    config = read_config(file, sizes)
    weights = take_weights(file, config)
    tokenizer = tokenizer_text(file, weights)
    signature = arguments(config, weights.arrays)
    model = ImportedModel(
        arguments=tuple(model_argument(argument, weights.arrays) for argument in signature),
        source=path.name,
        sha256=hash_file(path),
        importer="gguf",
        oracle=ORACLE,
        versions=versions_of("gguf", "numpy"),
        notes=tuple(weights.notes),
        original=str(path.resolve()),
    )
    say_stage(f"importing {path.name}: computing what it gives, in float64")
    oracle, inputs = LlamaReference(config, weights), [make_inputs(config, signature, seed) for seed in SEEDS]
    key = "position" if config.decodes else "length"
    results = [
        oracle.compute(tensors["tokens"], int(tensors[key][0]), tensors["keys"], tensors["values"])
        for tensors in inputs
    ]
    text = write_llama(config, weights.forms, signature)
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer:
        (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    (folder / "generation.json").write_text(json.dumps({"stop": ends_of(file, config.vocab)}) + "\n", encoding="utf-8")
    write_folder(folder, text, model, weights.arrays, inputs=inputs, results=results)


def tokenizer_text(file: GGUFFile, weights: LlamaWeights) -> str:
    """Return the file's tokenizer as JSON; if its type is not supported, add a note and return an empty string."""
    try:
        return write_tokenizer(file)
    except OtherTokenizerError as error:
        weights.notes.append(f"text in and out: {error}")
        return ""


def model_argument(argument: Argument, weights: Mapping[str, Array]) -> ModelArgument:
    """Return the record of an argument, with the range of the values if it is a weight."""
    if argument.role == "weight":
        return weight_argument(argument.name, weights[argument.name])
    return ModelArgument(argument.name, argument.role, argument.low, argument.high)


def make_inputs(config: LlamaConfig, signature: tuple[Argument, ...], seed: int) -> dict[str, Array]:
    """Return random inputs of the most expensive call: a full prompt, or a token with full caches."""
    rng = np.random.default_rng(seed)
    caches = {a.name: rng.uniform(-1, 1, a.shape).astype(np.float32) for a in signature if a.role == "state"}
    tokens = rng.integers(0, config.vocab, config.tokens).astype(np.int32)
    if config.decodes:
        return {"tokens": tokens, "position": np.array([config.positions - 1]), **caches}
    return {"tokens": tokens, "length": np.array([config.tokens]), **caches}


if __name__ == "__main__":
    run_converter(convert)
