"""Files of tensors (safetensors) as memory: mapped where they lie, so that what is not read takes none."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autotune.core.host.files import check_file
from autotune.core.payload import Array
from autotune.core.printable import one_line

MOST_HEADER = 1 << 27
STEADY_NS = 2 * 10**9  # after a write: clocks of file systems are as coarse
MOST_HASHES = 256  # files whose hash is kept
SIZE_BYTES = 8  # before the header, its length
KINDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies in a file.

    Attributes:
        kind: Element type, as the file calls it: ``F32``.
        shape: Sizes.
        start: First byte.
        end: The one behind the last.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int

    @classmethod
    def at(cls, start: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> "TensorEntry":
        """A tensor that begins at a byte."""
        kind = next(kind for kind in KINDS if dtype_of(kind) == dtype)
        return cls(kind, shape, start, start + dtype.itemsize * prod(shape))

    def broken_constraint(self) -> str | None:
        """What cannot be of a tensor in a file, as a sentence; `None` if all can."""
        if self.kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {one_line(self.kind)[:20]!r}"
        if any(size < 0 for size in self.shape) or self.start < 0:
            return f"sizes and start must be at least 0, got {list(self.shape)[:16]} and {self.start}"
        if self.end - self.start != dtype_of(self.kind).itemsize * prod(self.shape):
            return f"bytes must be as many as {list(self.shape)[:16]} of {self.kind}, got {self.start} to {self.end}"
        return None

    @classmethod
    def read(cls, name: str, entry: Any, first: int, size: int) -> "TensorEntry":  # noqa: ANN401 - JSON of others
        """What a header says of a tensor.

        Args:
            name: Name of the tensor.
            entry: What the header has under that name.
            first: First byte behind the header.
            size: Bytes of the file.

        Raises:
            ValueError: The header says what cannot be.
        """
        kind, shape, (start, end) = entry["dtype"], tuple(map(int, entry["shape"])), entry["data_offsets"]
        if any(each < 0 for each in shape):
            raise ValueError(f"tensor {name} must have sizes, it has {list(shape)}")
        if not 0 <= start <= end <= size - first or end - start != prod(shape) * dtype_of(kind).itemsize:
            raise ValueError(f"tensor {name} must lie in the file, its bytes are {start} to {end}")
        return cls(kind, shape, first + start, first + end)


@dataclass(frozen=True)
class TensorInFile:
    """A tensor, and the file that it lies in."""

    file: Path
    entry: TensorEntry


def dtype_of(kind: str) -> np.dtype[Any]:
    """NumPy's type for what the file calls an element type."""
    return np.dtype(ml_dtypes.bfloat16) if kind == "BF16" else np.dtype(KINDS[kind])


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Where the tensors of a file lie, by name; those of elements that NumPy does not know are left out.

    Raises:
        OSError: The file cannot be read, or is no regular file.
        ValueError: The file holds no tensors, or is cut off.
    """
    check_file(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(SIZE_BYTES), "little")
        if length > min(MOST_HEADER, size - SIZE_BYTES):
            raise ValueError("it must be a safetensors file, its header does not fit")
        try:
            held = json.loads(file.read(length).decode(), object_pairs_hook=without_twins)
            entries = {name: entry for name, entry in held.items() if name != "__metadata__"}
            check_cover([tuple(entry["data_offsets"]) for entry in entries.values()], size - SIZE_BYTES - length)
            known = {name: entry for name, entry in entries.items() if entry["dtype"] in KINDS}
            return {name: TensorEntry.read(name, each, SIZE_BYTES + length, size) for name, each in known.items()}
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("it must be a safetensors file, its header is none") from error


def without_twins(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose names are distinct and printable.

    Raises:
        ValueError: A name is there twice, or is not printable.
    """
    found = dict(pairs)
    if len(found) < len(pairs) or not all(map(str.isprintable, found)):
        raise ValueError("it must be a safetensors file, names in its header must be distinct and printable")
    return found


def check_cover(spans: Sequence[tuple[int, ...]], size: int) -> None:
    """Refuse spans that leave bytes of a file out, or share some.

    Raises:
        ValueError: Spans leave bytes out, or share some.
    """
    end = 0
    for span in sorted(spans):
        if len(span) != 2 or span[0] != end or span[1] < end:
            raise ValueError("it must be a safetensors file, its tensors must lie one behind the other")
        end = span[1]
    if end != size:
        raise ValueError(f"it must be whole, it has {size} bytes of tensors where its header names {end}")


def map_tensors(path: Path) -> Mapping[str, Array]:
    """Tensors of a file by name, mapped: pages are read when they are touched, and writes stay in this process.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file holds no tensors, or is cut off.
    """
    return map_entries({name: TensorInFile(path, entry) for name, entry in read_header(path).items()})


def map_entries(tensors: Mapping[str, TensorInFile]) -> dict[str, Array]:
    """Tensors in files, by name, mapped as `map_tensors` does.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is too short.
    """
    whole: dict[Path, np.memmap[Any, np.dtype[np.uint8]]] = {}
    found = {}
    for name, each in tensors.items():
        entry, dtype = each.entry, dtype_of(each.entry.kind)
        if entry.end == entry.start:  # a file of nothing cannot be mapped
            found[name] = np.empty(entry.shape, dtype)
            continue
        if each.file not in whole:
            whole[each.file] = np.memmap(each.file, np.uint8, "c")
        if entry.end > whole[each.file].size:
            raise ValueError(f"it must hold {name}, its bytes are {entry.start} to {entry.end}")
        found[name] = np.asarray(whole[each.file][entry.start : entry.end]).view(dtype).reshape(entry.shape)
    return found


def is_mapped(array: Array) -> bool:
    """Tell whether an array lies in a file that is mapped: pages that nobody changes take no memory of their own."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    return isinstance(owner, np.memmap)


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write a file of tensors: one behind the other, those of the widest elements first, the first on a cache line.

    Raises:
        OSError: The file cannot be written.
    """
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    names = {dtype_of(kind): kind for kind in KINDS}
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        array = tensors[name]
        offsets = [end, end + array.nbytes]
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + SIZE_BYTES) % 64)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(SIZE_BYTES, "little") + text)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data)


def hash_file(path: Path) -> str:
    """Hex sha256 of a file; read once in a process while the system says that it is as it was.

    Raises:
        OSError: The file cannot be read, or is no regular file.
    """
    check_file(path)
    now = path.stat()
    if time.time_ns() - now.st_ctime_ns < STEADY_NS:  # its time may not tell it from what is written next
        return digest_of(path)
    return kept_digest(path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@lru_cache(MOST_HASHES)
def kept_digest(path: Path, version: tuple[int, ...]) -> str:
    """Hex sha256 of a file, as long as it is as it was."""
    return digest_of(path)


def digest_of(path: Path) -> str:
    """Hex sha256 of what a file holds now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
