"""Disk cache of programs: object code and a description of its arguments, by key; read as plain data, not pickle.

    store/KEY/program.json, program.o, constants.safetensors      store/KEY.json: ops of a graph that PyTorch runs
    store/KEY/checked: its results were PyTorch's                 store/KEY.refused: why a region is no program
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

FORMAT = 2  # 2: constants in the order of their indices; where that was another one than of memory, 1 had them mixed up
PROGRAM, CODE, CONSTANTS, CHECKED = "program.json", "program.o", "constants.safetensors", "checked"
MOST_JSON, MOST_CODE, MOST_CONSTANTS, MOST_REFUSAL = 16 << 20, 256 << 20, 8 << 30, 1 << 16
Source = Literal["input", "weight", "constant", "panels", "output"]


@dataclass(frozen=True)
class KeptArgument:
    """An argument of a program, in the order in which it takes them.

    Attributes:
        source: What it is given: an input or weight of the region, a constant, panels of a weight, or a result.
        number: Which one: of the region's tensors, of `KeptProgram.panels`, or of the results.
        shape: Sizes as the program has them.
        dtype: MLIR element type, one of `DTYPES`.
        name: Name of a constant.
        order: Dimensions of the weight in the order in which the program has them; empty where it has them as they are.
        split: Sizes of the weight with dimensions split in parts, which `order` is of; empty where none is.
        accepts: Least whole number that an input may hold, and the one above the largest; `None` for any.
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
        """Bytes of its elements."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class KeptProgram:
    """Description of the calling convention of object code.

    Attributes:
        arguments: Arguments of the entry, in order.
        panels: Weights in panels.
        symbol: Name of its entry.
        searched: Candidates of the search that chose its schedules; 0 for the default ones.
        error: What its outputs may be off.
        sha256: Hashes of the files beside it, by name.
        format: Version of the format.
    """

    arguments: tuple[KeptArgument, ...]
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
class Kept:
    """Cached program.

    Attributes:
        folder: Folder of its files.
        program: Description of its calling convention.
        code: The object file.
        constants: Values of its constants, by name; of bf16 the bits.
        is_checked: Whether its results are known to agree with PyTorch's.
    """

    folder: Path
    program: KeptProgram
    code: bytes
    constants: Mapping[str, Array]
    is_checked: bool = False


def read_kept(folder: Path) -> Kept | None:
    """Read the program in a folder; return `None` if it is missing or incomplete."""
    from safetensors.numpy import load  # heavy

    with suppress(OSError, ValidationError, ValueError, KeyError):
        program = TypeAdapter(KeptProgram).validate_json(read_file(folder / PROGRAM, MOST_JSON))
        code = read_file(folder / CODE, MOST_CODE)
        data = read_file(folder / CONSTANTS, MOST_CONSTANTS)
        if program.broken_constraint() is None and hashes(code, data) == dict(program.sha256):
            return Kept(folder, program, code, load(data), (folder / CHECKED).is_file())
    return None


def keep(
    folder: Path,
    arguments: Sequence[KeptArgument],
    panels: Sequence[PanelWeight],
    symbol: str,
    code: bytes,
    constants: Mapping[str, Array],
    *,
    searched: int = 0,
    error: float = 0.0,
) -> Kept:
    """Store a program in a folder, if that is writable, and return it."""
    from safetensors.numpy import save  # heavy

    from autotune.store.bundle import replace_folder  # heavy: whatever reads bundles

    # NumPy's reader of such files knows no bf16: programs are given addresses, so that its bits do. Its writer takes
    # elements in the order of memory.
    plain = {name: np.ascontiguousarray(array) for name, array in constants.items()}
    data = save({name: array.view("u2") if array.dtype == DTYPES["bf16"] else array for name, array in plain.items()})
    program = KeptProgram(tuple(arguments), tuple(panels), symbol, searched, error, hashes(code, data))
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = {PROGRAM: json.dumps(asdict(program), indent=1) + "\n", CODE: code, CONSTANTS: data}
        replace_folder(folder, files)
    return Kept(folder, program, code, constants)


def keep_checked(kept: Kept) -> None:
    """Record that the results of a program agree with PyTorch's, so that no process checks again."""
    keep_text(kept.folder / CHECKED, "")


def keep_wrong(kept: Kept, why: str) -> None:
    """Record that the results of a program differ from PyTorch's, and delete it."""
    program = kept.program
    keep_refusal(wrong_of(kept.folder, program.searched, program.error), why)
    with suppress(OSError):
        (kept.folder / PROGRAM).unlink()


def refusal_of(folder: Path) -> Path:
    """The file that says why a region is no program, beside the folder of its program."""
    return folder.with_name(f"{folder.name}.refused")


def wrong_of(folder: Path, searched: int, error: float) -> Path:
    """The file that says why a region's program is not used: other schedules and another error make another program.

    Args:
        folder: Folder of the region's program.
        searched: Candidates of the search that chose its schedules.
        error: What its outputs may be off.
    """
    return folder.with_name(f"{folder.name}.{searched}.{float(error)}.refused")


def hashes(code: bytes, constants: bytes) -> dict[str, str]:
    """Hex sha256 of the files of a program, by name."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in ((CODE, code), (CONSTANTS, constants))}


def read_uncovered(path: Path) -> frozenset[str]:
    """Ops of a graph that PyTorch runs, as they were recorded; none where nothing was."""
    with suppress(OSError, ValidationError):
        return frozenset(TypeAdapter(list[str]).validate_json(read_file(path, MOST_JSON)))
    return frozenset()


def keep_uncovered(path: Path, ops: frozenset[str]) -> None:
    """Record the ops of a graph that PyTorch runs."""
    keep_text(path, json.dumps(sorted(ops)) + "\n")


def read_refusal(path: Path) -> str:
    """Read why a region cannot be a program, as one line; empty if nothing is recorded."""
    with suppress(OSError, UnicodeDecodeError):
        return " ".join(read_file(path, MOST_REFUSAL).decode().split())
    return ""


def keep_refusal(path: Path, why: str) -> None:
    """Record why a region cannot be imported: each process would try again, for seconds."""
    keep_text(path, why + "\n")


def keep_text(path: Path, text: str) -> None:
    """Write a text, if that can be done."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
