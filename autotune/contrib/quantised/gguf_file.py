"""GGUF files, read by package `gguf`: numbers, texts and tensors, which stay in the file until they are asked for.

Only a converter's own process reads one: the file is untrusted.
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

MOST_WHOLE = 1 << 24  # of what a file says of sizes
MOST_REASON = 160  # letters of what the reader says


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    Attributes:
        name: Name of the tensor.
        kind: GGML's name of how it is stored, such as ``Q8_0``.
        shape: Sizes, outermost first.
        stored: Rows of bytes where it is in blocks, else numbers: mapped, not copied.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    stored: Array

    def numbers(self, first: int, count: int) -> Array:
        """Rows in f32.

        Raises:
            UnsupportedError: Package `gguf` cannot widen its format, or numbers are not finite.
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
    """A file.

    Attributes:
        fields: Numbers and texts by key.
        lengths: Lengths of lists by key.
        lists: What reads a list, by key.
        tensors: Tensors by name.
    """

    fields: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensors: Mapping[str, StoredTensor]
    lists: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty if there is none.

        Raises:
            UnsupportedError: The values are no texts.
        """
        found = self.list_of(key)
        if not all(isinstance(each, str) for each in found):
            raise UnsupportedError(f"{key} must be texts, some are none; convert it again")
        return found

    def numbers(self, key: str) -> list[float]:
        """A list of finite numbers; empty if there is none.

        Raises:
            UnsupportedError: The values are no such numbers.
        """
        found = self.list_of(key)
        if not all(isinstance(each, (int, float)) and np.isfinite(each) for each in found):
            raise UnsupportedError(f"{key} must be finite numbers, some are none; convert it again")
        return found

    def list_of(self, key: str) -> list[Any]:
        """A list of the file; empty if there is none."""
        try:
            return list(self.lists[key]()) if key in self.lists else []
        except Exception as error:  # texts that are no UTF-8, and whatever else a damaged file has
            raise UnsupportedError(f"{key} must be a list that can be read, it is not; convert it again") from error

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1.

        Raises:
            UnsupportedError: The number is missing without a default, or another.
        """
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WHOLE:
            text = "is missing" if value is None else f"is {one_line(str(value))[:50]}"
            raise UnsupportedError(
                f"{key} must be one whole number from 1 to {MOST_WHOLE}, it {text}; convert it again"
            )
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A positive number.

        Raises:
            UnsupportedError: The number is missing without a default, or another.
        """
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < np.inf:
            text = "is missing" if value is None else f"is {one_line(str(value))[:50]}"
            raise UnsupportedError(f"{key} must be one positive number, it {text}; convert it again")
        return float(value)

    def tensor(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        """A tensor of a shape.

        Raises:
            UnsupportedError: The tensor is missing, or of another shape.
        """
        found = self.tensors.get(name)
        if found is None or found.shape != shape:
            text = "it is missing" if found is None else f"it is {written(found.shape)}"
            raise UnsupportedError(f"tensor {name} must have shape {written(shape)}, {text}; convert it again")
        return found


def written(shape: tuple[int, ...]) -> str:
    """A shape as a message has it, ``8x64``."""
    return "x".join(map(str, shape))


def check_finite(name: str, numbers: Array) -> None:
    """Raise unless all numbers are finite.

    Raises:
        UnsupportedError: One is not.
    """
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise UnsupportedError(f"numbers of tensor {name} must be finite, some are not; quantise it again")


def read_gguf(path: Path) -> GGUFFile:
    """Read what stands before the tensors, and map those.

    Raises:
        UnsupportedError: The file is cut, no GGUF file, or one that package `gguf` does not know.
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
        why = one_line(str(error) or type(error).__name__)[:MOST_REASON]
        raise UnsupportedError(
            f"it must be a GGUF file that package gguf reads, its reader stops at: {why}; fetch or convert it again"
        ) from error
    lengths = {name: len(each.data) for name, each in lists.items()}
    return GGUFFile(fields, lengths, tensors, {name: each.contents for name, each in lists.items()})
