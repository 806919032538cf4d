"""Imported models: names of the files in their folder, and the contents of ``payload.json``."""

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
MOST_NUMBER = 1e38  # bound of ranges, within f32
MOST_LETTERS = 180  # of an argument's name; bundles accept 200
SEEDS = (0, 1)  # seeds of the inputs whose results are recorded


def no_others(path: Path) -> Sequence[Path]:
    """Return no files: a model of a single file refers to no others."""
    return ()


@dataclass(frozen=True)
class Importer:
    """Reads a model from a file into a folder.

    An entry point of the group `autotune.importers`, by the file's suffix, is an importer, or its function `read`.

    Attributes:
        read: Function that imports a file into a folder, which it creates, given sizes by name of the dynamic
            dimensions.
        files: Function that returns the other files that a model's file refers to; their contents belong to the model.
    """

    read: Callable[[Path, Path, Mapping[str, int]], None]
    files: Callable[[Path], Sequence[Path]] = no_others

    @property
    def summary(self) -> str:
        """Line in ``autotune list``: the first of the docstring of `read`."""
        return (inspect.getdoc(self.read) or "").partition("\n")[0]

    @property
    def source_hash(self) -> str:
        """Hex sha256 of the sources of the importer's package, or of its module, which determine its output."""
        module = inspect.getmodule(self.read)
        if module is None or module.__file__ is None:
            return ""
        file = Path(module.__file__)
        sources = sorted(file.parent.glob("*.py")) if module.__package__ else [file]
        return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()


def hash_model(path: Path, others: Sequence[Path]) -> str:
    """Return the hex sha256 of a model: of its file, and of the files that it refers to.

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
    """Description of one argument of ``payload.mlir``, which is reshaped and transposed from the model's tensor.

    Attributes:
        name: Name of the tensor in the model.
        role: ``input``, ``weight``, ``state`` or ``output``.
        low: Lower bound (inclusive) of test data.
        high: Upper bound (exclusive) of test data.
        order: Permutation of the (split) dimensions of the model's tensor, such as the layout that convolutions read;
            empty for the identity.
        shape: Final shape of the argument, where dimensions were collapsed; empty where they were not.
        split: Shape of the model's tensor with dimensions expanded before `order` is applied, such as filters in
            groups; empty where there is none.
    """

    name: str
    role: str
    low: float = -1.0
    high: float = 1.0
    order: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    split: tuple[int, ...] = ()

    def arrange(self, tensor: Array) -> Array:
        """Convert a tensor of the model to the argument: expand, transpose, collapse."""
        parts = tensor.reshape(self.split) if self.split else tensor
        transposed = parts.transpose(self.order) if self.order else parts
        return transposed.reshape(self.shape) if self.shape else transposed

    def arranged(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape of the argument for a tensor of a shape; `None` where the shape does not fit."""
        if self.split and prod(self.split) != prod(shape):
            return None
        shape = self.split or shape
        if self.order and len(self.order) != len(shape):
            return None
        transposed = tuple(shape[d] for d in self.order) or shape
        return (self.shape if prod(self.shape) == prod(shape) else None) if self.shape else transposed

    def broken_constraint(self) -> str | None:
        """Return the first violated constraint as a sentence; `None` if the description is valid."""
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
    """A file of weights outside a model's folder, which is not copied, and identified by its hash.

    Attributes:
        path: Path of the file, relative to the folder or absolute.
        sha256: Hex sha256 of its contents.
        tensors: Positions of the weights in it, by name; empty for a safetensors file, whose header has them.
    """

    path: str
    sha256: str
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)

    def broken_constraint(self) -> str | None:
        """Return the first violated constraint as a sentence; `None` if the description is valid."""
        if not self.path or not self.path.isprintable():
            return f"paths of weights must be printable, got {one_line(self.path)[:50]!r}"
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            return f"sha256 of {self.path[:200]} must be 64 hexadecimal digits, got {one_line(self.sha256)[:70]!r}"
        if not all(map(str.isprintable, self.tensors)):
            return f"names of weights in {self.path[:200]} must be printable"
        checked = ((name, entry.broken_constraint()) for name, entry in self.tensors.items())
        return next((f"weight {name[:200]}: {broken}" for name, broken in checked if broken), None)


@dataclass(frozen=True)
class ImportedModel:
    """Contents of ``payload.json``.

    Attributes:
        arguments: Arguments of the function, in the order of its signature.
        source: File that the model was imported from.
        sha256: Hex sha256 of that file, and of those that it refers to.
        importer: File suffix of the importer that read it.
        oracle: Program that computed the recorded results, with its precision; empty where none are recorded.
        versions: Versions of the packages involved, by name.
        notes: Notes for the user, a sentence each.
        weights: Files of weights besides ``weights.safetensors``, which takes precedence.
        original: Path of the model's own file, where the folder has no copy of it.
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
        """Return the contents of the file."""
        return asdict(self)

    @property
    def file(self) -> str:
        """Name of the model's own file in the folder, where its importer keeps it."""
        return f"model.{self.importer}"

    def broken_constraint(self) -> str | None:
        """Return the first violated constraint as a sentence with the value; `None` if the description is valid."""
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
    """Return unique names of a payload's arguments, of letters, digits and _ only, for tensors of any name.

    Example:
        >>> argument_names([ModelArgument("0.weight", "weight"), ModelArgument("0/weight", "weight")])
        ['0_weight', '0_weight_1']
    """
    names: list[str] = []
    for argument in arguments:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", argument.name)[:MOST_LETTERS] or "_"
        numbered = (f"{plain}_{number}" for number in count(1))
        names.append(plain if plain not in names else next(name for name in numbered if name not in names))
    return names


def input_key(seed: int, name: str) -> str:
    """Return the key of a recorded input in ``oracle.npz``."""
    return f"input/{seed}/{name}"


def result_key(seed: int, number: int) -> str:
    """Return the key of a recorded result in ``oracle.npz``."""
    return f"result/{seed}/{number}"
