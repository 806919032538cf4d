"""Imported models: what the files of a folder are called, and what ``payload.json`` says of the model's arguments."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from autotune.core.errors import PayloadError
from autotune.core.payload import ROLES, Array

TEXT, DESCRIPTION, WEIGHTS, ORACLE = "payload.mlir", "payload.json", "weights.safetensors", "oracle.npz"
FORMAT = 1  # 1: the first
MOST_LETTERS = 180  # of a name; bundles take 200
SEEDS = (0, 1)  # of the inputs whose results are recorded

# Reads a model from a file into a folder, which it makes, with sizes by name for dimensions that the model leaves open;
# an entry point of the group `autotune.importers` names one, and has the name of the file's suffix.
Importer = Callable[[Path, Path, Mapping[str, int]], None]


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
    """

    name: str
    role: str
    low: float = -1.0
    high: float = 1.0
    order: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    def arrange(self, tensor: Array) -> Array:
        """The argument that holds a tensor of the model."""
        turned = tensor.transpose(self.order) if self.order else tensor
        return turned.reshape(self.shape) if self.shape else turned

    def arranged(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the argument that holds a tensor of a shape."""
        return self.shape or tuple(shape[d] for d in self.order) or shape


@dataclass(frozen=True)
class ImportedModel:
    """What ``payload.json`` holds.

    Attributes:
        arguments: Arguments of the function, in the order of its signature.
        source: File that the model was imported from.
        sha256: Hash of that file.
        importer: Suffix of the importer that read it.
        oracle: What computed the recorded results, and how exactly; empty where none are recorded.
        versions: Versions of what took part, by name.
        notes: Notes for the user, a sentence each.
        format: Version of the format.
    """

    arguments: tuple[ModelArgument, ...]
    source: str
    sha256: str
    importer: str
    oracle: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return asdict(self)

    @property
    def file(self) -> str:
        """Name of the model's own file in the folder, where its importer keeps it."""
        return f"model.{self.importer}"

    @classmethod
    def from_json(cls, said: dict[str, Any], where: str) -> "ImportedModel":
        """Read the file's content.

        Args:
            said: What the file holds, parsed.
            where: The file, for messages.

        Raises:
            PayloadError: The file holds something else.
        """
        try:
            if said["format"] != FORMAT:
                raise PayloadError(f"{where} must be of format {FORMAT}, it is of {said['format']}; import it again")
            arguments = tuple(read_argument(argument) for argument in said["arguments"])
            model = cls(**{**said, "arguments": arguments, "notes": tuple(said["notes"])})
        except (TypeError, KeyError) as error:
            raise PayloadError(
                f"{where} must describe an imported model, it does not: {error}; import it again"
            ) from error
        if any(argument.role not in ROLES for argument in arguments):
            raise PayloadError(f"roles in {where} must be of {', '.join(ROLES)}; import it again")
        return model


def read_argument(said: dict[str, Any]) -> ModelArgument:
    """One entry of the file's arguments."""
    order, shape = (tuple(said.get(name, ())) for name in ("order", "shape"))
    return ModelArgument(**{**said, "order": order, "shape": shape})


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
