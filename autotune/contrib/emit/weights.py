"""Weights file of a library: safetensors with known hash and offsets, so that the library parses nothing."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.bundles.candidates import lacks_reference
from autotune.core.errors import BundleError
from autotune.core.host.files import check_file
from autotune.core.host.whole_file import whole_file
from autotune.core.payload import DTYPES, Argument, Array
from autotune.core.plugs.any_size import AnySizePrograms
from autotune.core.printable import one_line
from autotune.store.bundle import BundleFiles

# MLIR element type -> safetensors dtype
CODES = {"f32": "F32", "f64": "F64", "i32": "I32", "i64": "I64", "i8": "I8", "f16": "F16", "bf16": "BF16"}
LINE = 64  # bytes per cache line, to which arrays are aligned where sizes allow
MOST_HEADER = 1 << 27


@dataclass(frozen=True)
class WeightsFile:
    """A safetensors file of weights.

    Attributes:
        path: The file.
        sha256: Hex hash of all its bytes.
        bytes: Size of the file.
        offsets: Byte offset of each weight, by name.
    """

    path: Path
    sha256: str
    bytes: int
    offsets: Mapping[str, int]


def weights_of(bundle: BundleFiles, file: Path | None, output: Path, stem: str) -> WeightsFile | None:
    """Return the weights file of a bundle's library: the given one, or a new one with the payload's weights.

    Args:
        bundle: Bundle of the library.
        file: Safetensors file with every weight by its name, used in place; `None` to write a file.
        output: Folder for a new file.
        stem: Name of a new file, without extension.

    Returns:
        File of weights; `None` if there are no weights.

    Raises:
        BundleError: The file lacks a weight or has it with another shape or type; or the values of weights are unknown.
    """
    weights = [argument for argument in bundle.payload.arguments if argument.role == "weight"]
    if not weights:
        if file is not None:
            raise BundleError(f"--weights must be left out, {bundle.payload.name} has no argument of role weight")
        return None
    if file is not None:
        return read_weights(file, weights)
    if lacks_reference(bundle):
        raise BundleError(
            f"weights of {bundle.payload.name} must be known, what it was read from is not known here; pass --weights "
            "FILE.safetensors, or --payload"
        )
    path = output / f"{stem}.safetensors"
    values = bundle.payload.make_inputs(0)
    write_weights(path, weights, values)
    return read_weights(path, weights)


def stored_name(name: str, owners: Mapping[str, str]) -> str:
    """Return the name of a weight in the file: its own, followed by the size that owns it, if any.

    Args:
        name: Name of the argument.
        owners: Name of the size that owns a weight, by name of the weight; empty for weights shared by all sizes.
    """
    owner = owners.get(name, "")
    return f"{name},{owner}" if owner else name


def weights_of_sizes(model: AnySizePrograms, file: Path | None, output: Path, stem: str) -> WeightsFile | None:
    """Return the weights file of a library of any size; arguments are those of `weights_of`.

    Raises:
        BundleError: The file lacks a weight or has it with another shape or type.
    """
    weights: dict[str, Argument] = {}
    values: dict[str, Array] = {}
    for program in model.programs:
        own_weights = [argument for argument in program.payload.arguments if argument.role == "weight"]
        fresh = {stored_name(a.name, program.owners): a for a in own_weights}
        if file is None and fresh.keys() - weights.keys():
            inputs = program.payload.make_inputs(0)
            values |= {name: inputs[a.name] for name, a in fresh.items() if name not in weights}
        weights |= {name: replace(a, name=name) for name, a in fresh.items() if name not in weights}
    if not weights:
        if file is not None:
            raise BundleError(f"--weights must be left out, {model.name} has no weights")
        return None
    path = file or output / f"{stem}.safetensors"
    if file is None:
        write_weights(path, list(weights.values()), values)
    return read_weights(path, list(weights.values()))


def write_weights(path: Path, weights: list[Argument], values: Mapping[str, Array]) -> None:
    """Write weights to a safetensors file whose header is padded so that the first weight is aligned to a cache line.

    Weights are sorted by descending element size, so that each is aligned to its elements.
    """
    weights = sorted(weights, key=lambda weight: -DTYPES[weight.dtype].itemsize)
    header: dict[str, Any] = {}
    end = 0
    for weight in weights:
        entry = {"dtype": CODES[weight.dtype], "shape": list(weight.shape), "data_offsets": [end, end + weight.bytes]}
        header[weight.name], end = entry, end + weight.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % LINE)
    with whole_file(path) as fresh, fresh.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for weight in weights:
            file.write(values[weight.name].astype(DTYPES[weight.dtype], order="C", copy=False).tobytes())


def read_weights(path: Path, weights: list[Argument]) -> WeightsFile:
    """Read the offsets of weights from the header of a safetensors file.

    Raises:
        BundleError: The file is not valid, or a weight is missing or has another shape or type.
    """
    try:
        check_file(path)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length < MOST_HEADER else None
        offsets = {weight.name: 8 + length + start_of(weight, header) for weight in weights}
    except OSError as error:
        raise BundleError(f"a weights file must be readable, {path} is not: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError(
            f"{one_line(str(path))} must be a safetensors file with {', '.join(CODES)} of every weight; "
            f"{one_line(str(error))[:200]}"
        ) from error
    size = path.stat().st_size
    for weight in weights:
        if offsets[weight.name] + weight.bytes > size or offsets[weight.name] % DTYPES[weight.dtype].itemsize:
            raise BundleError(f"{path} must hold all of {weight.name}, at a multiple of its elements; it is damaged")
    return WeightsFile(path, sha256, size, offsets)


def start_of(weight: Argument, header: Any) -> int:  # noqa: ANN401 - JSON of others
    """Return the offset of a weight after the header.

    Raises:
        ValueError, TypeError, KeyError: The weight is missing, or has another shape or type.
    """
    if weight.name not in header:
        raise ValueError(f"{weight.name} is missing")
    entry = header[weight.name]
    if (entry["dtype"], entry["shape"]) != (CODES[weight.dtype], list(weight.shape)):
        raise ValueError(
            f"{weight.name} must be {weight.dtype} {list(weight.shape)}, it is {entry['dtype']} {entry['shape']}"
        )
    start = entry["data_offsets"][0]
    if not isinstance(start, int) or start < 0:
        raise ValueError(f"{weight.name} has no offset")
    return start
