"""Memory-mapped tensor files (safetensors): tensors that are not accessed take no memory."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import index
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autotune.core.host.files import check_file
from autotune.core.payload import Array
from autotune.core.printable import one_line

MOST_HEADER = 1 << 27
STEADY_NS = 2 * 10**9  # age from which a time stamp identifies the contents: clocks of file systems are that coarse
MOST_HASHES = 256  # files whose hash is cached
SIZE_BYTES = 8  # length field before the header
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
    """Type and position of a tensor in a file.

    Attributes:
        kind: Element type of the file format, such as ``F32``.
        shape: Sizes.
        start: Offset of the first byte.
        end: Offset behind the last byte.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    end: int

    @classmethod
    def at(cls, start: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> "TensorEntry":
        """Return the entry of a tensor that starts at a byte offset."""
        kind = next(kind for kind in KINDS if dtype_of(kind) == dtype)
        return cls(kind, shape, start, start + dtype.itemsize * prod(shape))

    def broken_constraint(self) -> str | None:
        """Return the first violated constraint as a sentence; `None` if the entry is valid."""
        if self.kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {one_line(self.kind)[:20]!r}"
        if any(size < 0 for size in self.shape) or self.start < 0:
            return f"sizes and start must be at least 0, got {list(self.shape)[:16]} and {self.start}"
        if self.end - self.start != dtype_of(self.kind).itemsize * prod(self.shape):
            return f"bytes must be as many as {list(self.shape)[:16]} of {self.kind}, got {self.start} to {self.end}"
        return None

    @classmethod
    def read(cls, name: str, entry: Any, first: int, size: int) -> "TensorEntry":  # noqa: ANN401 - JSON of others
        """Parse the header's entry of a tensor.

        Args:
            name: Name of the tensor.
            entry: Value of that name in the header.
            first: Offset of the first byte behind the header.
            size: Size of the file in bytes.

        Raises:
            ValueError: The entry is inconsistent.
        """
        kind, shape = entry["dtype"], tuple(map(index, entry["shape"]))  # no text, no fraction
        start, end = map(index, entry["data_offsets"])
        if any(each < 0 for each in shape):
            raise ValueError(f"tensor {name} must have sizes, it has {list(shape)}")
        if not 0 <= start <= end <= size - first or end - start != prod(shape) * dtype_of(kind).itemsize:
            raise ValueError(f"tensor {name} must lie in the file, its bytes are {start} to {end}")
        return cls(kind, shape, first + start, first + end)


@dataclass(frozen=True)
class TensorInFile:
    """A tensor's entry, and the file that contains it."""

    file: Path
    entry: TensorEntry


def dtype_of(kind: str) -> np.dtype[Any]:
    """Return the NumPy type of an element type of the file format."""
    return np.dtype(ml_dtypes.bfloat16) if kind == "BF16" else np.dtype(KINDS[kind])


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Read the entries of a file's tensors, by name; tensors of element types unknown to NumPy are left out.

    Raises:
        OSError: The file cannot be read, or is no regular file.
        ValueError: The file is no safetensors file, or is truncated.
    """
    check_file(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(SIZE_BYTES), "little")
        if length > min(MOST_HEADER, size - SIZE_BYTES):
            raise ValueError("it must be a safetensors file, its header does not fit")
        try:
            header = json.loads(file.read(length).decode(), object_pairs_hook=without_duplicates)
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            check_cover([tuple(entry["data_offsets"]) for entry in entries.values()], size - SIZE_BYTES - length)
            supported = {name: entry for name, entry in entries.items() if entry["dtype"] in KINDS}
            return {name: TensorEntry.read(name, each, SIZE_BYTES + length, size) for name, each in supported.items()}
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("it must be a safetensors file, its header is none") from error


def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, whose names must be distinct and printable.

    Raises:
        ValueError: A name is repeated, or is not printable.
    """
    unique = dict(pairs)
    if len(unique) < len(pairs) or not all(map(str.isprintable, unique)):
        raise ValueError("it must be a safetensors file, names in its header must be distinct and printable")
    return unique


def check_cover(spans: Sequence[tuple[int, ...]], size: int) -> None:
    """Raise unless byte ranges cover a file's data of `size` bytes without gaps or overlaps.

    Raises:
        ValueError: There is a gap or an overlap.
    """
    end = 0
    for span in sorted(spans):
        if len(span) != 2 or span[0] != end or span[1] < end:
            raise ValueError("it must be a safetensors file, its tensors must lie one behind the other")
        end = span[1]
    if end != size:
        raise ValueError(f"it must be whole, it has {size} bytes of tensors where its header names {end}")


def map_tensors(path: Path) -> Mapping[str, Array]:
    """Map the tensors of a file into memory, by name: pages are read on access, and writes are private (copy-on-write).

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is no safetensors file, or is truncated.
    """
    return map_entries({name: TensorInFile(path, entry) for name, entry in read_header(path).items()})


def map_entries(tensors: Mapping[str, TensorInFile]) -> dict[str, Array]:
    """Map tensors of several files, by name, as `map_tensors` does.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is too short.
    """
    maps: dict[Path, np.memmap[Any, np.dtype[np.uint8]]] = {}
    arrays = {}
    for name, tensor in tensors.items():
        entry, dtype = tensor.entry, dtype_of(tensor.entry.kind)
        if entry.end == entry.start:  # an empty file cannot be mapped
            arrays[name] = np.empty(entry.shape, dtype)
            continue
        if tensor.file not in maps:
            maps[tensor.file] = np.memmap(tensor.file, np.uint8, "c")
        if entry.end > maps[tensor.file].size:
            raise ValueError(f"it must hold {name}, its bytes are {entry.start} to {entry.end}")
        arrays[name] = np.asarray(maps[tensor.file][entry.start : entry.end]).view(dtype).reshape(entry.shape)
    return arrays


def is_mapped(array: Array) -> bool:
    """Return whether an array is a view of a memory-mapped file: its unmodified pages take no memory of their own."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    return isinstance(owner, np.memmap)


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write a safetensors file: contiguous tensors, the widest element types first, starting at a cache line.

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
    """Return the hex sha256 of a file, cached in the process while its inode, size and time stamps are unchanged.

    Raises:
        OSError: The file cannot be read, or is no regular file.
    """
    check_file(path)
    now = path.stat()
    if time.time_ns() - now.st_ctime_ns < STEADY_NS:  # a later write may have the same time stamp
        return hash_contents(path)
    return cached_hash(path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@lru_cache(MOST_HASHES)
def cached_hash(path: Path, version: tuple[int, ...]) -> str:
    """Return the hex sha256 of a file, cached by its version."""
    return hash_contents(path)


def hash_contents(path: Path) -> str:
    """Return the hex sha256 of a file's current contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
