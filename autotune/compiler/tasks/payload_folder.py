"""A folder that an importer wrote as a payload: names, weights and recorded results around the text."""

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

MOST_BYTES = 16 << 20  # of a description
Tensors = tuple[tuple[str, ModelArgument], ...]  # name of each argument, and the model's tensor


@dataclass(frozen=True)
class WeightFile:
    """A file of weights.

    Attributes:
        path: The file.
        tensors: Positions of the weights in it, by name; empty for a safetensors file.
    """

    path: Path
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)

    def entries(self) -> Mapping[str, TensorEntry]:
        """Where its tensors lie.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file holds no tensors, or is cut off.
        """
        return self.tensors or read_header(self.path)


def load_payload_folder(folder: Path, name: str, text: Payload) -> Payload:
    """Complete a payload with what lies in its folder besides the text.

    Args:
        folder: Folder that an importer wrote.
        name: Spec that the payload is known by.
        text: What was read from the text.

    Raises:
        PayloadError: A file is missing or damaged, or describes another text.
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
    kept = next((str(path) for path in (folder / model.file, Path(model.original)) if path.is_file()), "")
    derived = model.importer != "mlir"  # that one's text is the user's own
    doubts = (UNPROVED,) if derived and recorded is None else ()
    return replace(
        text,
        name=name,
        arguments=arguments,
        inputs=partial(make_inputs, arguments, tensors, weights, recorded),
        reference=partial(recorded_results, recorded, tensors, len(text.outputs)) if recorded is not None else None,
        notes=(*text.notes, *model.notes, *doubts),
        model=kept,
        derived=derived,
    )


def write_text_folder(payload: Payload, folder: Path) -> None:
    """Make a folder of a file of MLIR: names, roles and ranges can then be given in its description.

    Args:
        payload: What was read from the file, by whose path it is known.
        folder: Folder to write.
    """
    arguments = tuple(ModelArgument(a.name, a.role, a.low, a.high) for a in payload.arguments)
    model = ImportedModel(arguments, Path(payload.name).name, payload.sha256, "mlir", notes=payload.notes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_text(payload.text, encoding="utf-8")
    (folder / DESCRIPTION).write_text(json.dumps(model.to_json(), indent=1) + "\n", encoding="utf-8")


def read_description(folder: Path) -> ImportedModel:
    """What a folder says of its model.

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
    """An argument as the text has it, with what the model says of it."""
    return replace(argument, name=name, role=tensor.role, low=tensor.low, high=tensor.high)


def first_fault(error: ValidationError) -> str:
    """Where a description first is not what it must be, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{one_line('.'.join(map(str, first['loc'])))[:200] or 'it'}: {first['msg']}"


def weight_files(folder: Path, model: ImportedModel) -> tuple[WeightFile, ...]:
    """Files that hold a folder's weights: its own comes last, and counts where two hold one.

    Raises:
        PayloadError: A file that the folder refers to is missing, or is another by its hash.
    """
    others = []
    for each in model.weights:
        path = Path(os.path.normpath(folder / each.path))
        try:
            found = hash_file(path)
        except OSError as error:
            raise PayloadError(f"weights must be readable, {path} is not: {why_unread(error)}; restore it") from error
        if found != each.sha256:
            raise PayloadError(
                f"weights in {path} must have sha256 {each.sha256[:12]}.., they have {found[:12]}..; restore it, or "
                "import the model again"
            )
        others.append(WeightFile(path, each.tensors))
    own = folder / WEIGHTS
    is_own = own.exists() or (model.importer != "mlir" and not others)
    return (*others, WeightFile(own)) if is_own else tuple(others)


def check_weights(
    files: Sequence[WeightFile], arguments: tuple[Argument, ...], tensors: Mapping[str, ModelArgument]
) -> None:
    """Refuse weights that are not what the text wants, before any work is done with them.

    Raises:
        PayloadError: One is missing, of another shape, or holds whole numbers for others, or the other way round.
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
        held = stored.get(tensor.name)
        found = tensor.arranged(held.shape) if held is not None else None
        if argument.role == "weight" and (held is None or found != argument.shape):
            is_now = held.shape if held is not None else "missing"
            raise PayloadError(f"weight {tensor.name} in {where} must have shape {argument.shape}, is {is_now}")
        if argument.role == "weight" and held is not None and is_float(held.kind) != is_float(argument.dtype):
            raise PayloadError(f"weight {tensor.name} in {where} must be {argument.dtype}, is {held.kind}")


def unreadable(path: Path, error: Exception) -> PayloadError:
    """The error of weights that cannot be read."""
    return PayloadError(f"weights must be readable, {path} is not: {why_unread(error)}; import it again")


def why_unread(error: Exception) -> str:
    """Why a file could not be read, in a line."""
    return getattr(error, "strerror", None) or one_line(str(error))[:200]


def is_float(dtype: str) -> bool:
    """Whether a dtype, of MLIR or of safetensors, is of floating point."""
    return dtype.lower().startswith(("f", "bf", "c"))


def make_inputs(
    arguments: tuple[Argument, ...], tensors: Tensors, weights: tuple[WeightFile, ...], recorded: Path | None, seed: int
) -> dict[str, Array]:
    """The model's weights, and its recorded inputs; seeds behind the recorded ones begin again with the first.

    Args:
        arguments: Arguments of the payload.
        tensors: Name of each, and the model's tensor.
        weights: Files of weights.
        recorded: File of recorded inputs, if there is one.
        seed: Seed of the inputs.

    Raises:
        PayloadError: A file is missing or damaged by now.
    """
    takes_weights = any(argument.role == "weight" for argument in arguments)
    held = read_weights(weights) if takes_weights else {}
    given = read_recorded(recorded) if recorded is not None else {}
    rng = np.random.default_rng(seed)
    recorded_seed = SEEDS[seed % len(SEEDS)]
    found = {}
    for argument, (_, tensor) in zip(arguments, tensors, strict=True):
        if argument.role == "weight" and weights:
            if tensor.name not in held:
                raise PayloadError(f"weight {tensor.name} must be in {weights[-1].path}, it is not; import it again")
            found[argument.name] = tensor.arrange(held[tensor.name])
        elif argument.role != "output":
            key = input_key(recorded_seed, tensor.name)
            array = given[key] if key in given else random_array(argument, rng)
            # NumPy's files know no bf16, which is recorded as f32; calls refuse what they would have to round
            found[argument.name] = array.astype(DTYPES["bf16"]) if argument.dtype == "bf16" else array
    return found


def read_weights(files: Sequence[WeightFile]) -> dict[str, Array]:
    """Weights by name, mapped: nothing is read before it is used.

    Raises:
        PayloadError: A file is missing or damaged.
    """
    held: dict[str, Array] = {}
    for file in files:
        try:
            held |= map_entries({name: TensorInFile(file.path, entry) for name, entry in file.entries().items()})
        except (OSError, ValueError) as error:
            raise unreadable(file.path, error) from error
    return held


@cache
def read_recorded(path: Path) -> Mapping[str, Array]:
    """Everything that is recorded, by key.

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
    """What the framework computed of these inputs, in float64.

    Raises:
        PayloadError: The framework was not asked for them.
    """
    held = read_recorded(recorded)
    for seed in SEEDS:
        keys = {name: input_key(seed, tensor.name) for name, tensor in tensors}
        if all(np.array_equal(inputs[name], held[key]) for name, key in keys.items() if key in held):
            return tuple(held[result_key(seed, number)] for number in range(results))
    raise PayloadError(f"results in {recorded} must be of the given inputs, there are none of those; import it again")
