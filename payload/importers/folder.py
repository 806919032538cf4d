"""Output of the importers: a folder of plain files with the module, weights, recorded results and a description."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from types import MappingProxyType

import numpy as np

from autotune.core.host.extras import version_of
from autotune.core.host.tensor_file import TensorInFile, hash_file, write_tensors
from autotune.core.payload import Array
from autotune.core.plugs.imported import (
    DESCRIPTION,
    ORACLE,
    SEEDS,
    TEXT,
    WEIGHTS,
    ImportedModel,
    ModelArgument,
    WeightsElsewhere,
    input_key,
    result_key,
)
from payload.importers.linalg import UnsupportedError

# Permutation of a kernel (f, c, i, j) to (i, j, c, f), by rank; likewise for lines and volumes, and (g, f, c, i, j) in
# groups.
KERNEL = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}
KERNEL_OF_GROUPS = {4: (0, 3, 4, 2, 1), 5: (0, 3, 4, 5, 2, 1)}
MOST_RANDOM = 1e4  # largest random value that exp and products tolerate; masks hold the lowest float
MOST_COPIED = 1 << 30  # maximum bytes of weights of a model whose files are copied into the folder


def write_folder(
    folder: Path,
    text: str,
    model: ImportedModel,
    weights: Mapping[str, Array],
    *,
    inputs: Sequence[Mapping[str, Array]] = (),
    results: Sequence[Sequence[Array]] = (),
    keep: Callable[[Path], None] | None = None,
    lying: Mapping[str, TensorInFile] = MappingProxyType({}),
    source: Path | None = None,
) -> None:
    """Write a folder; the description is written last, so that a folder with a description is complete.

    Args:
        folder: Output folder, created if missing.
        text: MLIR text of the module.
        model: Description of the model.
        weights: Values of all arguments with the role ``weight``, by name.
        inputs: Inputs of each of `SEEDS`, by name.
        results: Results that the framework computes for them, in the order of the model's results.
        keep: Function that writes a self-contained copy of the model in its own format, to compare with its runtime.
        lying: Locations of weights in the user's files, by name; the weights of a large model are not copied.
        source: Model file, which the folder of a large model refers to instead of copying it.

    Raises:
        UnsupportedError: A weight or a result has no elements.
    """
    check_filled(model, weights, results)
    is_large = sum(array.nbytes for array in weights.values()) > MOST_COPIED
    if is_large and source is not None:
        model, keep = replace(model, weights=files_of(lying), original=str(source.resolve())), None
        weights = {name: array for name, array in weights.items() if name not in lying}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_text(text, encoding="utf-8")
    if weights:
        write_tensors(folder / WEIGHTS, weights)
    if results:
        recorded: dict[str, Array] = {}
        for seed, arrays, outputs in zip(SEEDS, inputs, results, strict=True):
            recorded |= {input_key(seed, name): recordable(array) for name, array in arrays.items()}
            recorded |= {result_key(seed, number): recordable(array) for number, array in enumerate(outputs)}
        np.savez(folder / ORACLE, allow_pickle=False, **recorded)
    if keep is not None:
        keep(folder / model.file)
    (folder / DESCRIPTION).write_text(json.dumps(model.to_json(), indent=1) + "\n", encoding="utf-8")


def check_filled(model: ImportedModel, weights: Mapping[str, Array], results: Sequence[Sequence[Array]]) -> None:
    """Raise unless all weights, and all results that are known, have elements.

    Raises:
        UnsupportedError: A weight or a result is empty; the message has its name in the model.
    """
    outputs = [argument.name for argument in model.arguments if argument.role == "output"]
    first_results = dict(zip(outputs, results[0] if results else (), strict=False))
    for kind, arrays in (("weight", weights), ("result", first_results)):
        for name, array in arrays.items():
            if 0 in array.shape:
                raise UnsupportedError(
                    f"sizes of {kind} {name} must be at least 1, got {tuple(array.shape)}; export the model without it"
                )


def files_of(lying: Mapping[str, TensorInFile]) -> tuple[WeightsElsewhere, ...]:
    """Return references to the files by hash, with the locations of the weights in each."""
    files = dict.fromkeys(each.file for each in lying.values())
    return tuple(
        WeightsElsewhere(
            str(file.resolve()),
            hash_file(file),
            {name: each.entry for name, each in lying.items() if each.file == file},
        )
        for file in files
    )


def recordable(array: Array) -> Array:
    """Convert an array to a dtype that NumPy files support: bf16 to f32, exactly."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def weight_argument(name: str, array: Array) -> ModelArgument:
    """Return the argument of a weight; its range is that of the values, clipped to `MOST_RANDOM`."""
    seen = np.clip([array.min(), array.max()], -MOST_RANDOM, MOST_RANDOM) if array.size else np.zeros(2)
    low, high = (float(end) for end in np.nan_to_num(seen))
    high += array.dtype.kind in "iu"  # the upper bound of an integer range is exclusive
    return ModelArgument(name, "weight", low, high if high > low else low + 1.0)


def kernel_argument(argument: ModelArgument, shape: Sequence[int], groups: int = 1) -> ModelArgument:
    """Return the argument of a convolution kernel (f, c, i, j) that is stored as a matrix over windows: (i j c, f).

    With several groups, the matrices are stacked: (g, i j c, f).
    """
    f, *window = shape
    if groups == 1:
        return replace(argument, order=KERNEL[len(shape)], shape=(prod(window), f))
    split, order = (groups, f // groups, *window), KERNEL_OF_GROUPS[len(shape)]
    return replace(argument, split=split, order=order, shape=(groups, prod(window), f // groups))


def is_arranged(shape: Sequence[int], groups: int) -> bool:
    """Return whether a kernel is stored as a matrix: in groups, only with several filters and channels per group."""
    if groups == 1:
        return len(shape) in KERNEL
    return len(shape) in KERNEL_OF_GROUPS and shape[0] > groups and shape[1] > 1


def order_back(order: Sequence[int]) -> list[int]:
    """Return the inverse permutation.

    Example:
        >>> order_back((2, 3, 1, 0))
        [3, 2, 0, 1]
    """
    return sorted(range(len(order)), key=order.__getitem__)


def random_inputs(
    arguments: Sequence[ModelArgument], kinds: Mapping[str, tuple[Sequence[int], np.dtype[np.generic]]], seed: int
) -> dict[str, Array]:
    """Return random data for the inputs of a model, in their ranges.

    Args:
        arguments: Arguments of the model.
        kinds: Shape and dtype of each input, by name.
        seed: Seed of the data.
    """
    rng = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for argument in arguments:
        if argument.name in kinds and argument.role == "input":
            shape, dtype = kinds[argument.name]
            whole = dtype.kind in "iub"
            data = (
                rng.integers(int(argument.low), int(argument.high), shape)
                if whole
                else rng.uniform(argument.low, argument.high, shape)
            )
            inputs[argument.name] = np.asarray(data).astype(dtype)
    return inputs


def versions_of(*names: str) -> dict[str, str]:
    """Return the versions of the installed distributions."""
    return {name: version for name in names if (version := version_of(name))}


def with_outputs(model: ImportedModel, names: Sequence[str]) -> ImportedModel:
    """Append an output argument for each result."""
    return replace(model, arguments=(*model.arguments, *(ModelArgument(name, "output") for name in names)))
