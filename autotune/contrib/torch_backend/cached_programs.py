"""Disk cache of programs: object code and a description of its arguments, by key; read as plain data, not pickle.

    store/KEY/program.json, program.o, constants.safetensors      store/KEY.json: ops of a graph that PyTorch runs
    store/KEY/checked: its results were PyTorch's                 store/KEY.refused: why a region cannot be compiled
    store/KEY.SEARCHED.ERROR.refused: why the program of a search and an error is not used

Entries that are damaged, of another format or of another machine are ignored and compiled again.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from autotune.compiler.panel_weight import PanelWeight
from autotune.core.host.files import read_file
from autotune.core.host.whole_file import write_file
from autotune.core.payload import DTYPES, Array

FORMAT = 2  # 2: constants in row-major order; 1 had them wrong if their memory was in another order
PROGRAM, CODE, CONSTANTS, CHECKED = "program.json", "program.o", "constants.safetensors", "checked"
MOST_JSON, MOST_CODE, MOST_CONSTANTS, MOST_REFUSAL = 16 << 20, 256 << 20, 8 << 30, 1 << 16
Source = Literal["input", "weight", "constant", "panels", "output"]


@dataclass(frozen=True)
class ProgramArgument:
    """Argument of a program.

    Attributes:
        source: What is passed: an input or weight of the region, a constant, panels of a weight, or a result.
        number: Index among its source: of the region's tensors, of `ProgramDescription.panels`, or of the results.
        shape: Sizes in the program.
        dtype: MLIR element type, one of `DTYPES`.
        name: Name of a constant.
        order: Permutation from the dimensions of the weight to those of the program; empty for the identity.
        split: Sizes of the weight after dimensions are split, which `order` refers to; empty if none is split.
        accepts: Half-open bounds of the integers that an input may contain; `None` for any.
    """

    source: Source
    number: int
    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    order: tuple[int, ...] = ()
    split: tuple[int, ...] = ()
    accepts: tuple[int, int] | None = None

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class ProgramDescription:
    """Description of the calling convention of object code.

    Attributes:
        arguments: Arguments of the entry, in order.
        panels: Weights in panels.
        symbol: Name of its entry.
        searched: Candidates of the search that chose its schedules; 0 for the default ones.
        error: Allowed error of its outputs.
        sha256: Hashes of the other files of the program, by name.
        format: Version of the format.
    """

    arguments: tuple[ProgramArgument, ...]
    panels: tuple[PanelWeight, ...]
    symbol: str
    searched: int
    error: float
    sha256: Mapping[str, str]
    format: int = FORMAT

    def broken_constraint(self) -> str | None:
        """Return a sentence on the first violated constraint; `None` if all hold."""
        if self.format != FORMAT:
            return f"format must be {FORMAT}, got {self.format}"
        if any(a.dtype not in DTYPES or any(size < 1 for size in a.shape) for a in self.arguments):
            return "arguments must have known element types and sizes of at least 1"
        if any(not 0 <= panels.source < len(self.arguments) for panels in self.panels):
            return "panels must be of an argument"
        counts = {"panels": len(self.panels)}
        if any(not 0 <= a.number < counts.get(a.source, a.number + 1) for a in self.arguments):
            return "arguments must have a number that there is"
        return None


@dataclass(frozen=True, eq=False)
class CachedProgram:
    """Cached program.

    Attributes:
        folder: Folder of its files.
        program: Description of its calling convention.
        code: The object file.
        constants: Values of its constants, by name; of bf16 the bits.
        is_checked: Whether its results are known to agree with PyTorch's.
    """

    folder: Path
    program: ProgramDescription
    code: bytes
    constants: Mapping[str, Array]
    is_checked: bool = False


def read_program(folder: Path) -> CachedProgram | None:
    """Read the program in a folder; return `None` if it is missing or incomplete."""
    from safetensors.numpy import load  # heavy

    with suppress(OSError, ValidationError, ValueError, KeyError):
        program = TypeAdapter(ProgramDescription).validate_json(read_file(folder / PROGRAM, MOST_JSON))
        code = read_file(folder / CODE, MOST_CODE)
        data = read_file(folder / CONSTANTS, MOST_CONSTANTS)
        if program.broken_constraint() is None and hashes(code, data) == dict(program.sha256):
            return CachedProgram(folder, program, code, load(data), (folder / CHECKED).is_file())
    return None


def write_program(
    folder: Path,
    arguments: Sequence[ProgramArgument],
    panels: Sequence[PanelWeight],
    symbol: str,
    code: bytes,
    constants: Mapping[str, Array],
    *,
    searched: int = 0,
    error: float = 0.0,
) -> CachedProgram:
    """Store a program in a folder, if that is writable, and return it."""
    from safetensors.numpy import save  # heavy

    from autotune.store.bundle import replace_folder  # heavy: it imports the reader of bundles

    # The reader for NumPy does not support bf16, so its bits are stored; programs only need addresses. The writer takes
    # elements in the order of memory.
    plain = {name: np.ascontiguousarray(array) for name, array in constants.items()}
    data = save({name: array.view("u2") if array.dtype == DTYPES["bf16"] else array for name, array in plain.items()})
    program = ProgramDescription(tuple(arguments), tuple(panels), symbol, searched, error, hashes(code, data))
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = {PROGRAM: json.dumps(asdict(program), indent=1) + "\n", CODE: code, CONSTANTS: data}
        replace_folder(folder, files)
    return CachedProgram(folder, program, code, constants)


def record_checked(cached: CachedProgram) -> None:
    """Record that the results of a program agree with PyTorch's, so that no process checks again."""
    write_text(cached.folder / CHECKED, "")


def record_wrong(cached: CachedProgram, reason: str) -> None:
    """Record that the results of a program differ from PyTorch's, and delete it."""
    program = cached.program
    record_refusal(wrong_path(cached.folder, program.searched, program.error), reason)
    with suppress(OSError):
        (cached.folder / PROGRAM).unlink()


def refusal_path(folder: Path) -> Path:
    """Return the path of the reason why a region cannot be compiled, beside the folder of its program."""
    return folder.with_name(f"{folder.name}.refused")


def wrong_path(folder: Path, searched: int, error: float) -> Path:
    """Return the path of the reason why a region's program is not used, which depends on schedules and error.

    Args:
        folder: Folder of the region's program.
        searched: Candidates of the search that chose its schedules.
        error: Allowed error of its outputs.
    """
    return folder.with_name(f"{folder.name}.{searched}.{float(error)}.refused")


def hashes(code: bytes, constants: bytes) -> dict[str, str]:
    """Return the hex sha256 of the files of a program, by name."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in ((CODE, code), (CONSTANTS, constants))}


def read_uncovered(path: Path) -> frozenset[str]:
    """Read the recorded ops of a graph that PyTorch runs; none if nothing is recorded."""
    with suppress(OSError, ValidationError):
        return frozenset(TypeAdapter(list[str]).validate_json(read_file(path, MOST_JSON)))
    return frozenset()


def record_uncovered(path: Path, ops: frozenset[str]) -> None:
    """Record the ops of a graph that PyTorch runs."""
    write_text(path, json.dumps(sorted(ops)) + "\n")


def read_refusal(path: Path) -> str:
    """Read why a region cannot be a program, as one line; empty if nothing is recorded."""
    with suppress(OSError, UnicodeDecodeError):
        return " ".join(read_file(path, MOST_REFUSAL).decode().split())
    return ""


def record_refusal(path: Path, reason: str) -> None:
    """Record why a region cannot be imported, so that no other process tries again, which takes seconds."""
    write_text(path, reason + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, if the folder is writable."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
