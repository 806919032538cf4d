"""The weights file of a library: safetensors, whose hash and offsets the library knows, so that it parses nothing."""

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

# of MLIR -> of safetensors
CODES = {"f32": "F32", "f64": "F64", "i32": "I32", "i64": "I64", "i8": "I8", "f16": "F16", "bf16": "BF16"}
LINE = 64  # bytes of a cache line: arrays begin on one where sizes allow
MOST_HEADER = 1 << 27


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights.

    Attributes:
        path: The file.
        sha256: Hex hash of all its bytes.
        bytes: Size of the file.
        offsets: Byte at which each weight begins, by name.
    """

    path: Path
    sha256: str
    bytes: int
    offsets: Mapping[str, int]


def weights_of(bundle: BundleFiles, given: Path | None, output: Path, stem: str) -> WeightsFile | None:
    """The weights file of a bundle's library: one that is given, or written with what the payload's weights are.

    Args:
        bundle: The bundle.
        given: A safetensors file with every weight by its name; it stays where it lies.
        output: Folder that a file is written to where none is given.
        stem: Name of that file.

    Returns:
        The file; `None` where there are no weights.

    Raises:
        BundleError: The file lacks a weight or has another shape or type of it; or nobody knows what the weights are.
    """
    weights = [argument for argument in bundle.payload.arguments if argument.role == "weight"]
    if not weights:
        if given is not None:
            raise BundleError(f"--weights must be left out, {bundle.payload.name} has no argument of role weight")
        return None
    if given is not None:
        return read_weights(given, weights)
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
    """Name of a weight in the file: its own, or with the size whose own it is.

    Args:
        name: Name of the argument.
        owners: Size whose own a weight is, by name; empty for what all sizes share.
    """
    owner = owners.get(name, "")
    return f"{name},{owner}" if owner else name


def weights_of_sizes(model: AnySizePrograms, given: Path | None, output: Path, stem: str) -> WeightsFile | None:
    """The weights file of a library of any size, once what sizes share; arguments are those of `weights_of`.

    Raises:
        BundleError: The file lacks a weight or has another shape or type of it.
    """
    weights: dict[str, Argument] = {}
    values: dict[str, Array] = {}
    for program in model.programs:
        mine = [argument for argument in program.payload.arguments if argument.role == "weight"]
        fresh = {stored_name(a.name, program.owners): a for a in mine}
        if given is None and fresh.keys() - weights.keys():
            found = program.payload.make_inputs(0)
            values |= {name: found[a.name] for name, a in fresh.items() if name not in weights}
        weights |= {name: replace(a, name=name) for name, a in fresh.items() if name not in weights}
    if not weights:
        if given is not None:
            raise BundleError(f"--weights must be left out, {model.name} has no weights")
        return None
    path = given or output / f"{stem}.safetensors"
    if given is None:
        write_weights(path, list(weights.values()), values)
    return read_weights(path, list(weights.values()))


def write_weights(path: Path, weights: list[Argument], values: Mapping[str, Array]) -> None:
    """Write weights one behind the other; the header is filled up so that the first begins on a cache line.

    Those of the largest elements come first, so that each begins at a multiple of its own.
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
    """A safetensors file that has weights, by its header.

    Raises:
        BundleError: The file is no such, or a weight is missing, of another shape or of another type.
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
    """The byte behind the header at which a weight begins.

    Raises:
        ValueError, TypeError, KeyError: It is missing, of another shape or type.
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
