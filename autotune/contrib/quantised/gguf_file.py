"""Reader of GGUF files by package `gguf`: scalars, strings and tensors, which stay memory-mapped until requested.

The file is untrusted: only the converter's process reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotune.contrib.quantised.gguf_layout import StoredFormats, check_layout
from autotune.core.payload import Array
from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError

MOST_WHOLE = 1 << 24  # of any size that a file states
MOST_REASON = 160  # characters of a reader's message


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    Attributes:
        name: Name of the tensor.
        kind: GGML's name of the storage format, such as ``Q8_0``.
        shape: Sizes of dimensions, outermost first.
        stored: Rows of bytes if the format has blocks, else numbers; memory-mapped.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    stored: Array

    def numbers(self, first: int, count: int) -> Array:
        """Return rows as f32.

        Raises:
            UnsupportedError: Package `gguf` cannot widen the format, or a number is not finite.
        """
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        rows = self.stored[first : first + count]
        try:
            widened = np.asarray(dequantize(rows, GGMLQuantizationType[self.kind]), np.float32)
        except NotImplementedError as error:
            raise UnsupportedError(
                f"tensor {self.name} must be in a format that package gguf widens, {self.kind} is none; "
                "quantise it as Q8_0 or Q4_0"
            ) from error
        check_finite(self.name, widened)
        return widened


@dataclass(frozen=True)
class GGUFFile:
    """Metadata and tensors of a file.

    Attributes:
        fields: Scalars and strings by key.
        lengths: Lengths of lists by key.
        lists: Functions that read a list, by key.
        tensors: Tensors by name.
    """

    fields: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensors: Mapping[str, StoredTensor]
    lists: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; empty if the key is missing.

        Raises:
            UnsupportedError: A value is not a string.
        """
        values = self.list_of(key)
        if not all(isinstance(each, str) for each in values):
            raise UnsupportedError(f"{key} must be texts, some are none; convert it again")
        return values

    def numbers(self, key: str) -> list[float]:
        """Return a list of finite numbers; empty if the key is missing.

        Raises:
            UnsupportedError: A value is not a finite number.
        """
        values = self.list_of(key)
        if not all(isinstance(each, (int, float)) and np.isfinite(each) for each in values):
            raise UnsupportedError(f"{key} must be finite numbers, some are none; convert it again")
        return values

    def list_of(self, key: str) -> list[Any]:
        """Return a list of the file; empty if the key is missing."""
        try:
            return list(self.lists[key]()) if key in self.lists else []
        except Exception as error:  # invalid UTF-8, and whatever a damaged file makes the reader raise
            raise UnsupportedError(f"{key} must be a list that can be read, it is not; convert it again") from error

    def whole(self, key: str, default: int | None = None) -> int:
        """Return an integer of at least 1.

        Raises:
            UnsupportedError: The value is missing without a default, or invalid.
        """
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WHOLE:
            text = "is missing" if value is None else f"is {one_line(str(value))[:50]}"
            raise UnsupportedError(
                f"{key} must be one whole number from 1 to {MOST_WHOLE}, it {text}; convert it again"
            )
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """Return a positive number.

        Raises:
            UnsupportedError: The value is missing without a default, or invalid.
        """
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < np.inf:
            text = "is missing" if value is None else f"is {one_line(str(value))[:50]}"
            raise UnsupportedError(f"{key} must be one positive number, it {text}; convert it again")
        return float(value)

    def tensor(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        """Return a tensor, checking its shape.

        Raises:
            UnsupportedError: The tensor is missing, or has a different shape.
        """
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            text = "it is missing" if tensor is None else f"it is {written(tensor.shape)}"
            raise UnsupportedError(f"tensor {name} must have shape {written(shape)}, {text}; convert it again")
        return tensor


def written(shape: tuple[int, ...]) -> str:
    """Format a shape for messages, such as ``8x64``."""
    return "x".join(map(str, shape))


def check_finite(name: str, numbers: Array) -> None:
    """Check that all numbers are finite.

    Raises:
        UnsupportedError: A number is not finite.
    """
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise UnsupportedError(f"numbers of tensor {name} must be finite, some are not; quantise it again")


def read_gguf(path: Path) -> GGUFFile:
    """Read the metadata of a file and memory-map its tensors.

    Raises:
        UnsupportedError: The file is truncated, not a GGUF file, or not readable by package `gguf`.
    """
    from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFValueType

    check_layout(path, StoredFormats({kind: kind.name for kind in GGML_QUANT_SIZES}, GGML_QUANT_SIZES))
    try:
        reader = GGUFReader(path)
        lists = {name: each for name, each in reader.fields.items() if GGUFValueType.ARRAY in each.types}
        fields = {name: each.contents() for name, each in reader.fields.items() if name not in lists}
        tensors = {
            tensor.name: StoredTensor(
                tensor.name, tensor.tensor_type.name, tuple(int(n) for n in reversed(tensor.shape)), tensor.data
            )
            for tensor in reader.tensors
        }
    except Exception as error:  # a damaged file makes the reader raise anything
        reason = one_line(str(error) or type(error).__name__)[:MOST_REASON]
        raise UnsupportedError(
            f"it must be a GGUF file that package gguf reads, its reader stops at: {reason}; fetch or convert it again"
        ) from error
    lengths = {name: len(each.data) for name, each in lists.items()}
    return GGUFFile(fields, lengths, tensors, {name: each.contents for name, each in lists.items()})
