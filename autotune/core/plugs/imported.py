"""Imported models: what the files of a folder are called, and what ``payload.json`` says of the model's arguments."""

import hashlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

from autotune.core.host.tensor_file import TensorEntry
from autotune.core.payload import ROLES, Array
from autotune.core.printable import one_line

TEXT, DESCRIPTION, WEIGHTS, ORACLE = "payload.mlir", "payload.json", "weights.safetensors", "oracle.npz"
FORMAT = 1  # 1: the first
MOST_NUMBER = 1e38  # beyond any that f32 holds
MOST_LETTERS = 180  # of a name; bundles take 200
SEEDS = (0, 1)  # of the inputs whose results are recorded


def no_others(path: Path) -> Sequence[Path]:
    """The files of a model that is one file, besides that one."""
    return ()


@dataclass(frozen=True)
class Importer:
    """Reads a model from a file into a folder.

    An entry point of the group `autotune.importers`, by the file's suffix, names one, or the function `read` alone.

    Attributes:
        read: Reads a file into a folder, which it makes, with sizes by name for dimensions that the model leaves open.
        files: Every other file that a model's file refers to: all their bytes are the model.
    """

    read: Callable[[Path, Path, Mapping[str, int]], None]
    files: Callable[[Path], Sequence[Path]] = no_others

    @property
    def source_hash(self) -> str:
        """Hex sha256 of the sources of the importer's package, or of its module: what it writes changes with them."""
        module = inspect.getmodule(self.read)
        if module is None or module.__file__ is None:
            return ""
        file = Path(module.__file__)
        sources = sorted(file.parent.glob("*.py")) if module.__package__ else [file]
        return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


def hash_model(path: Path, others: Sequence[Path]) -> str:
    """Hex sha256 of a model: of its file, and of those that it refers to, where there are any.

    Raises:
        OSError: A file cannot be read.
    """
    digests = []
    for each in (path, *others):
        with each.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    if not others:
        return digests[0]
    names = [os.path.relpath(each, path.parent) for each in others]
    return hashlib.sha256(repr([digests, names]).encode()).hexdigest()


@dataclass(frozen=True)
class ModelArgument:
    """What an importer knows of one argument of ``payload.mlir``, in the order of the signature.

    Attributes:
        name: Name of the tensor in the model.
        role: ``input``, ``weight``, ``state`` or ``output``.
        low: Smallest value that the model is tried with.
        high: Upper end (exclusive) of those values.
        order: Dimensions of the model's tensor in the order in which the text has them; empty where it has them as they
            are. So a kernel is stored as convolutions read it.
        shape: Shape of the argument, where dimensions were made one; empty where it is the tensor's.
        split: Shape of the model's tensor with dimensions split, which `order` is of, as filters in groups; empty where
            none is.
    """

    name: str
    role: str
    low: float = -1.0
    high: float = 1.0
    order: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    split: tuple[int, ...] = ()

    def arrange(self, tensor: Array) -> Array:
        """The argument that holds a tensor of the model."""
        parts = tensor.reshape(self.split) if self.split else tensor
        transposed = parts.transpose(self.order) if self.order else parts
        return transposed.reshape(self.shape) if self.shape else transposed

    def arranged(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Shape of the argument that holds a tensor of a shape; `None` where none can."""
        if self.split and prod(self.split) != prod(shape):
            return None
        shape = self.split or shape
        if self.order and len(self.order) != len(shape):
            return None
        transposed = tuple(shape[d] for d in self.order) or shape
        return (self.shape if prod(self.shape) == prod(shape) else None) if self.shape else transposed

    def broken_constraint(self) -> str | None:
        """What no description may say of an argument, as a sentence; `None` if it says nothing of the kind."""
        name = one_line(self.name)[:50]
        if not self.name.isprintable():
            return f"names of arguments must be printable, got {name!r}"
        if self.role not in ROLES:
            return f"role of {name} must be one of {', '.join(ROLES)}, got {one_line(self.role)[:50]!r}"
        if not -MOST_NUMBER < self.low < self.high < MOST_NUMBER:
            return f"low of {name} must be below high, and both finite, got {self.low} and {self.high}"
        if sorted(self.order) != list(range(len(self.order))):
            return f"order of {name} must hold every dimension once, got {list(self.order)[:16]}"
        if any(size < 1 for size in (*self.shape, *self.split)):
            return f"sizes of {name} must be at least 1, got {[*self.shape, *self.split][:16]}"
        return None


@dataclass(frozen=True)
class WeightsElsewhere:
    """A file of weights besides a folder's own: it stays where it lies, and is known by its hash.

    Attributes:
        path: The file: from the folder, or from the root.
        sha256: Hex hash of all its bytes.
        tensors: Positions of the weights in it, by name; empty for a safetensors file, which says so itself.
    """

    path: str
    sha256: str
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)

    def broken_constraint(self) -> str | None:
        """What no description may say of a file, as a sentence; `None` if it says nothing of the kind."""
        if not self.path or not self.path.isprintable():
            return f"paths of weights must be printable, got {one_line(self.path)[:50]!r}"
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            return f"sha256 of {self.path[:200]} must be 64 hexadecimal digits, got {one_line(self.sha256)[:70]!r}"
        if not all(map(str.isprintable, self.tensors)):
            return f"names of weights in {self.path[:200]} must be printable"
        found = ((name, entry.broken_constraint()) for name, entry in self.tensors.items())
        return next((f"weight {name[:200]}: {broken}" for name, broken in found if broken), None)


@dataclass(frozen=True)
class ImportedModel:
    """What ``payload.json`` holds.

    Attributes:
        arguments: Arguments of the function, in the order of its signature.
        source: File that the model was imported from.
        sha256: Hash of that file, and of those that it refers to.
        importer: Suffix of the importer that read it.
        oracle: What computed the recorded results, and how exactly; empty where none are recorded.
        versions: Versions of what took part, by name.
        notes: Notes for the user, a sentence each.
        weights: Files that hold weights besides ``weights.safetensors``; a weight in both is the folder's own.
        original: Path of the model's own file, where the folder keeps no copy of it.
        format: Version of the format.
    """

    arguments: tuple[ModelArgument, ...]
    source: str
    sha256: str
    importer: str
    oracle: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    weights: tuple[WeightsElsewhere, ...] = ()
    original: str = ""
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return asdict(self)

    @property
    def file(self) -> str:
        """Name of the model's own file in the folder, where its importer keeps it."""
        return f"model.{self.importer}"

    def broken_constraint(self) -> str | None:
        """What no description may say, as a sentence with the value found; `None` if it says nothing of the kind."""
        if self.format != FORMAT:
            return f"format must be {FORMAT}, got {self.format}"
        if not re.fullmatch("[a-z0-9_]{1,20}", self.importer):
            return f"importer must be a suffix of letters and digits, got {one_line(self.importer)[:50]!r}"
        if any(not text.isprintable() for text in (self.source, self.oracle, self.original, *self.notes)):
            return "texts must be printable"
        broken = (
            *(each.broken_constraint() for each in self.arguments),
            *(each.broken_constraint() for each in self.weights),
        )
        return next(filter(None, broken), None)


def argument_names(arguments: Sequence[ModelArgument]) -> list[str]:
    """Names of a payload's arguments, of letters, digits and _ alone, for tensors of any name.

    Example:
        >>> argument_names([ModelArgument("0.weight", "weight"), ModelArgument("0/weight", "weight")])
        ['0_weight', '0_weight_1']
    """
    found: list[str] = []
    for argument in arguments:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", argument.name)[:MOST_LETTERS] or "_"
        taken = (f"{plain}_{number}" for number in count(1))
        found.append(plain if plain not in found else next(name for name in taken if name not in found))
    return found


def input_key(seed: int, name: str) -> str:
    """Name of a recorded input in ``oracle.npz``."""
    return f"input/{seed}/{name}"


def result_key(seed: int, number: int) -> str:
    """Name of a recorded result in ``oracle.npz``."""
    return f"result/{seed}/{number}"
