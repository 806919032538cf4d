"""Folder of a model of any size: its description and its compiled sizes.

FOLDER/sizes.json            bounds, what may be padded and split, sizes and their seconds
FOLDER/weights.safetensors   weights, stored once
FOLDER/sizes/SIZE/           an imported model of that size, which refers to the weights by hash
FOLDER/bundles/SIZE/         bundle of that size, if it was tuned
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from autotune.compiler.tasks.payload_folder import first_fault
from autotune.contrib.sizes.bounds import Sizes, name_of
from autotune.contrib.sizes.paths import DESCRIPTION
from autotune.contrib.sizes.plan import costs_of, open_dim, shorter_sizes
from autotune.contrib.sizes.proof import Dim
from autotune.core.errors import PayloadError
from autotune.core.host.files import read_file
from autotune.core.payload import Array
from autotune.core.plugs.any_size import ServedSize

FORMAT = 1
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class CompiledSize:
    """A compiled size.

    Attributes:
        sizes: Size of every open dimension, by name.
        seconds: Seconds of a call at its last measurement.
        grain: Divisor of the smaller sizes, along the dimension of `open_dim`, that its program serves as well by
            ending its loops early; 0 if it serves none.
    """

    sizes: Mapping[str, int]
    seconds: float
    grain: int = 0

    @property
    def name(self) -> str:
        """Name of the size's folders."""
        return name_of(self.sizes)


@dataclass(frozen=True)
class SizedModel:
    """Contents of ``sizes.json``.

    Attributes:
        source: The model's file.
        sha256: Hash of that file and of those that it refers to.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it: by argument name, then by dimension name.
        sizes: Compiled sizes.
        error: Largest difference from the model's own runtime, relative to the largest value, at all tested sizes.
        tried: Number of tested sizes.
        format: Version of the format.
    """

    source: str
    sha256: str
    dims: tuple[Dim, ...]
    axes: Mapping[str, Mapping[str, int]]
    sizes: tuple[CompiledSize, ...]
    error: float = 0.0
    tried: int = 0
    format: int = FORMAT

    def broken_constraint(self) -> str | None:
        """Return the first violated constraint of the description as a sentence; `None` if it is valid."""
        names = {dim.name for dim in self.dims}
        if self.format != FORMAT:
            return f"format must be {FORMAT}, got {self.format}"
        if not self.sizes or any(set(each.sizes) != names for each in self.sizes):
            return "every compiled size must give every dimension"
        if any(not 1 <= dim.low <= dim.high for dim in self.dims) or len(names) != len(self.dims):
            return "dimensions must be distinct and have a range"
        if any("/" in name or not name.isprintable() or name.startswith(".") for name in names):
            return "names of dimensions must be printable and no paths"
        if any(not each.seconds > 0 or min([*each.sizes.values(), each.grain + 1]) < 1 for each in self.sizes):
            return "compiled sizes must be at least 1 and take time"
        return None

    @property
    def served(self) -> tuple[ServedSize, ...]:
        """Compiled sizes, and the smaller ones that their programs serve as well."""
        dim, served_sizes = open_dim(self.dims), []
        for number, each in enumerate(self.sizes):
            for sizes in (*shorter_sizes(self.dims, each.sizes, each.grain), each.sizes):
                share = prod(sizes.values()) / prod(each.sizes.values())
                served_sizes.append(ServedSize(sizes, each.seconds * share, number, sizes[dim.name] if dim else 0))
        return tuple(served_sizes)

    def seconds_of(self, requests: Sequence[Sizes]) -> Array:
        """Return the expected seconds of requests, of shape ``(requests,)``."""
        served = self.served
        ordered = [{dim.name: request[dim.name] for dim in self.dims} for request in requests]
        return costs_of(self.dims, [each.sizes for each in served], [each.seconds for each in served], ordered)

    def with_size(self, name: str, seconds: float, grain: int) -> "SizedModel":
        """Return the model with new seconds and grain of a compiled size, by its name."""
        sizes = (replace(e, seconds=seconds, grain=grain) if e.name == name else e for e in self.sizes)
        return replace(self, sizes=tuple(sizes))


def read_sized(folder: Path) -> SizedModel:
    """Read the description of a folder's model.

    Raises:
        PayloadError: The description is missing or damaged.
    """
    path = folder / DESCRIPTION
    try:
        model = TypeAdapter(SizedModel).validate_json(read_file(path, MOST_BYTES))
    except OSError as error:
        raise PayloadError(f"{path} must be readable, it is not: {error.strerror}; import the model again") from error
    except ValidationError as error:
        raise PayloadError(
            f"{path} must describe a model of any size, {first_fault(error)}; import it again"
        ) from error
    if (violated := model.broken_constraint()) is not None:
        raise PayloadError(f"{path} must describe a model of any size: {violated}; import it again")
    return model


def write_sized(folder: Path, model: SizedModel) -> None:
    """Write the description of a folder's model."""
    (folder / DESCRIPTION).write_text(json.dumps(asdict(model), indent=1) + "\n", encoding="utf-8")
