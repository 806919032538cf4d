"""Read a folder written by an importer as a payload: MLIR text with argument names, weights and recorded results."""

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from pydantic import TypeAdapter, ValidationError

from autotune.core.errors import PayloadError
from autotune.core.host.files import check_file, read_file
from autotune.core.host.readable import allow_reading
from autotune.core.host.tensor_file import TensorEntry, TensorInFile, hash_file, map_entries, read_header
from autotune.core.payload import DTYPES, UNPROVED, Argument, Array, Payload, random_array
from autotune.core.plugs.imported import (
    DESCRIPTION,
    ORACLE,
    SEEDS,
    TEXT,
    WEIGHTS,
    ImportedModel,
    ModelArgument,
    argument_names,
    input_key,
    result_key,
)
from autotune.core.printable import one_line

MOST_BYTES = 16 << 20  # size limit of a description
Tensors = tuple[tuple[str, ModelArgument], ...]  # name of each argument, and its tensor in the model


@dataclass(frozen=True)
class WeightFile:
    """File of weights.

    Attributes:
        path: Path of the file.
        tensors: Locations of the weights in the file, by name; empty for a safetensors file, which has a header.
    """

    path: Path
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)

    def entries(self) -> Mapping[str, TensorEntry]:
        """Return the locations of the tensors in the file, by name.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file contains no tensors, or is truncated.
        """
        return self.tensors or read_header(self.path)


def load_payload_folder(folder: Path, name: str, text: Payload) -> Payload:
    """Complete a payload with the description, weights and recorded results in its folder.

    Args:
        folder: Folder that an importer wrote.
        name: Spec that identifies the payload.
        text: Payload read from the MLIR text alone.

    Raises:
        PayloadError: A file is missing or damaged, or does not match the text.
    """
    model = read_description(folder)
    if len(text.arguments) != len(model.arguments):
        raise PayloadError(
            f"{folder / DESCRIPTION} must describe the {len(text.arguments)} arguments of {TEXT}, "
            f"it describes {len(model.arguments)}; import it again"
        )
    names = argument_names(model.arguments)
    arguments = tuple(map(described, text.arguments, model.arguments, names))
    tensors = tuple(zip(names, model.arguments, strict=True))
    recorded = folder / ORACLE if (folder / ORACLE).exists() else None
    weights = weight_files(folder, model)
    check_weights(weights, arguments, dict(tensors))
    allow_reading(*(file.path for file in weights), *filter(None, (recorded,)))
    model_path = next((str(path) for path in (folder / model.file, Path(model.original)) if path.is_file()), "")
    derived = model.importer != "mlir"  # with importer "mlir", the text was written by the user
    doubts = (UNPROVED,) if derived and recorded is None else ()
    return replace(
        text,
        name=name,
        arguments=arguments,
        inputs=partial(make_inputs, arguments, tensors, weights, recorded),
        reference=partial(recorded_results, recorded, tensors, len(text.outputs)) if recorded is not None else None,
        notes=(*text.notes, *model.notes, *doubts),
        model=model_path,
        derived=derived,
    )


def write_text_folder(payload: Payload, folder: Path) -> None:
    """Write a payload folder for a plain MLIR file, so that its description can set names, roles and ranges.

    Args:
        payload: Payload read from the file; its name is the path of the file.
        folder: Folder to write.
    """
    arguments = tuple(ModelArgument(a.name, a.role, a.low, a.high) for a in payload.arguments)
    model = ImportedModel(arguments, Path(payload.name).name, payload.sha256, "mlir", notes=payload.notes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_text(payload.text, encoding="utf-8")
    (folder / DESCRIPTION).write_text(json.dumps(model.to_json(), indent=1) + "\n", encoding="utf-8")


def read_description(folder: Path) -> ImportedModel:
    """Read and validate the description of a payload folder.

    Raises:
        PayloadError: The description is missing or damaged.
    """
    path = folder / DESCRIPTION
    try:
        model = TypeAdapter(ImportedModel).validate_json(read_file(path, MOST_BYTES))
    except OSError as error:
        raise PayloadError(
            f"an imported model must have a readable {DESCRIPTION}, {path} is not: {error.strerror}"
        ) from error
    except ValidationError as error:
        raise PayloadError(f"{path} must describe an imported model, {first_fault(error)}; import it again") from error
    if (broken := model.broken_constraint()) is not None:
        raise PayloadError(f"{path} must describe an imported model: {broken}; import it again")
    return model


def described(argument: Argument, tensor: ModelArgument, name: str) -> Argument:
    """Return an argument of the text with the name, role and range of the description."""
    return replace(argument, name=name, role=tensor.role, low=tensor.low, high=tensor.high)


def first_fault(error: ValidationError) -> str:
    """Return the location and message of the first validation error of a description."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{one_line('.'.join(map(str, first['loc'])))[:200] or 'it'}: {first['msg']}"


def weight_files(folder: Path, model: ImportedModel) -> tuple[WeightFile, ...]:
    """Return the weight files of a folder; its own file comes last and takes precedence.

    Raises:
        PayloadError: A file that the folder refers to is missing, or its hash differs.
    """
    files = []
    for each in model.weights:
        path = Path(os.path.normpath(folder / each.path))
        try:
            digest = hash_file(path)
        except OSError as error:
            raise PayloadError(f"weights must be readable, {path} is not: {why_unread(error)}; restore it") from error
        if digest != each.sha256:
            raise PayloadError(
                f"weights in {path} must have sha256 {each.sha256[:12]}.., they have {digest[:12]}..; restore it, or "
                "import the model again"
            )
        files.append(WeightFile(path, each.tensors))
    own = folder / WEIGHTS
    is_own = own.exists() or (model.importer != "mlir" and not files)
    return (*files, WeightFile(own)) if is_own else tuple(files)


def check_weights(
    files: Sequence[WeightFile], arguments: tuple[Argument, ...], tensors: Mapping[str, ModelArgument]
) -> None:
    """Check that the weight files match the arguments of the text, before any work is done with them.

    Raises:
        PayloadError: A weight is missing, has another shape, or holds integers instead of floats or vice versa.
    """
    if not files or not any(argument.role == "weight" for argument in arguments):
        return
    stored: dict[str, TensorEntry] = {}
    for file in files:
        try:
            stored |= file.entries()
        except (OSError, ValueError) as error:
            raise unreadable(file.path, error) from error
    where = files[-1].path
    for argument in arguments:
        tensor = tensors[argument.name]
        entry = stored.get(tensor.name)
        shape = tensor.arranged(entry.shape) if entry is not None else None
        if argument.role == "weight" and (entry is None or shape != argument.shape):
            actual = entry.shape if entry is not None else "missing"
            raise PayloadError(f"weight {tensor.name} in {where} must have shape {argument.shape}, is {actual}")
        if argument.role == "weight" and entry is not None and is_float(entry.kind) != is_float(argument.dtype):
            raise PayloadError(f"weight {tensor.name} in {where} must be {argument.dtype}, is {entry.kind}")


def unreadable(path: Path, error: Exception) -> PayloadError:
    """Return the error for weights that cannot be read."""
    return PayloadError(f"weights must be readable, {path} is not: {why_unread(error)}; import it again")


def why_unread(error: Exception) -> str:
    """Return why a file could not be read, in one line."""
    return getattr(error, "strerror", None) or one_line(str(error))[:200]


def is_float(dtype: str) -> bool:
    """Return whether a dtype of MLIR or safetensors is a floating-point or complex type."""
    return dtype.lower().startswith(("f", "bf", "c"))


def make_inputs(
    arguments: tuple[Argument, ...], tensors: Tensors, weights: tuple[WeightFile, ...], recorded: Path | None, seed: int
) -> dict[str, Array]:
    """Return the weights of the model, and recorded inputs or random ones; seeds wrap around the recorded ones.

    Args:
        arguments: Arguments of the payload.
        tensors: Name of each argument, and its tensor in the model.
        weights: Weight files.
        recorded: File of recorded inputs, if there is one.
        seed: Seed of the inputs.

    Raises:
        PayloadError: A file is missing or damaged.
    """
    takes_weights = any(argument.role == "weight" for argument in arguments)
    weight_arrays = read_weights(weights) if takes_weights else {}
    recorded_arrays = read_recorded(recorded) if recorded is not None else {}
    rng = np.random.default_rng(seed)
    recorded_seed = SEEDS[seed % len(SEEDS)]
    inputs = {}
    for argument, (_, tensor) in zip(arguments, tensors, strict=True):
        if argument.role == "weight" and weights:
            if tensor.name not in weight_arrays:
                raise PayloadError(f"weight {tensor.name} must be in {weights[-1].path}, it is not; import it again")
            inputs[argument.name] = tensor.arrange(weight_arrays[tensor.name])
        elif argument.role != "output":
            key = input_key(recorded_seed, tensor.name)
            array = recorded_arrays[key] if key in recorded_arrays else random_array(argument, rng)
            # NumPy files do not support bf16, which is recorded as f32; calls reject arrays they would have to round
            inputs[argument.name] = array.astype(DTYPES["bf16"]) if argument.dtype == "bf16" else array
    return inputs


def read_weights(files: Sequence[WeightFile]) -> dict[str, Array]:
    """Memory-map weights, by name; nothing is read before it is used.

    Raises:
        PayloadError: A file is missing or damaged.
    """
    arrays: dict[str, Array] = {}
    for file in files:
        try:
            arrays |= map_entries({name: TensorInFile(file.path, entry) for name, entry in file.entries().items()})
        except (OSError, ValueError) as error:
            raise unreadable(file.path, error) from error
    return arrays


@cache
def read_recorded(path: Path) -> Mapping[str, Array]:
    """Read all recorded arrays, by key.

    Raises:
        PayloadError: The file is missing or damaged.
    """
    try:
        check_file(path)
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, TypeError, BadZipFile, zlib.error) as error:
        why = one_line(str(error))[:200]
        raise PayloadError(f"recorded results must be readable, {path} is not: {why}; import it again") from error


def recorded_results(recorded: Path, tensors: Tensors, results: int, **inputs: Array) -> tuple[Array, ...]:
    """Return the results that the framework computed from these inputs, in float64.

    Raises:
        PayloadError: No results are recorded for these inputs.
    """
    arrays = read_recorded(recorded)
    for seed in SEEDS:
        keys = {name: input_key(seed, tensor.name) for name, tensor in tensors}
        if all(np.array_equal(inputs[name], arrays[key]) for name, key in keys.items() if key in arrays):
            return tuple(arrays[result_key(seed, number)] for number in range(results))
    raise PayloadError(f"results in {recorded} must be of the given inputs, there are none of those; import it again")
