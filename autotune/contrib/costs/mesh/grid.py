"""`Grid`: a mesh of cores, as a TOML file describes it, and what a user may call one.

    mesh:wse2              shipped
    mesh:mine.toml         a file
    mesh:64x64             so many rows and columns of the shipped `plain` core
    ...,memory=1M,batch=8  other figures

Format: 1, the first.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from autotune.core.described import check_number, check_text, shipped_in
from autotune.core.errors import MachineError
from autotune.core.host.files import read_text
from autotune.core.printable import one_line

FORMAT = 1
MOST_BYTES = 1 << 16  # of a file
MOST_CHARACTERS = 2000  # of a text in it
SHIPPED = Path(__file__).parent / "grids"
PLAIN = "plain"
SIZE = re.compile("([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", re.ASCII)
NUMBER = re.compile("([0-9]{1,15})([KMG]?)", re.ASCII)
UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
BATCH = "batch"
MOST_BATCH = 1 << 20
# Least and most of every figure; those without a least above zero may be left out.
BOUNDS: dict[str, tuple[int, int]] = {
    "rows": (1, 1 << 14),
    "columns": (1, 1 << 14),
    "memory": (1 << 10, 1 << 40),
    "hertz": (10**6, 10**11),
    "flops": (1, 1 << 20),
    "memory_bytes": (1, 1 << 20),
    "link_bytes": (1, 1 << 20),
    "hop_cycles": (1, 1 << 20),
    "core_cycles": (0, 1 << 20),
    "task_cycles": (0, 1 << 30),
    "program": (0, 1 << 40),
    "element_bytes": (0, 8),
}


@dataclass(frozen=True)
class Grid:
    """A mesh of equal cores: a router each, links to its four neighbours, one in each direction.

    Attributes:
        name: Name that people know it by.
        source: Origin of its figures, a sentence.
        rows: Cores from top to bottom.
        columns: Cores from left to right.
        memory: Bytes of a core's memory.
        hertz: Cycles a second.
        flops: Floating-point operations a cycle of a core.
        memory_bytes: Bytes a cycle between a core and its memory.
        link_bytes: Bytes a cycle over a link.
        hop_cycles: Cycles from a router to its neighbour's.
        core_cycles: Cycles from a router into its core, through an addition, and back.
        task_cycles: Cycles that a core takes to begin an op.
        program: Bytes of a core's memory that code takes.
        element_bytes: Bytes that a floating-point number takes at most, wider ones being stored and sent so; 0 where
            they stay as the payload has them.
    """

    name: str
    source: str
    rows: int
    columns: int
    memory: int
    hertz: int
    flops: int
    memory_bytes: int
    link_bytes: int
    hop_cycles: int = 1
    core_cycles: int = 2
    task_cycles: int = 0
    program: int = 0
    element_bytes: int = 0

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.rows * self.columns

    @property
    def capacity(self) -> int:
        """Bytes that all cores hold besides code."""
        return self.cores * (self.memory - self.program)


def read_argument(argument: str) -> tuple[Grid, int]:
    """The grid and the batch that follow ``mesh:``.

    Raises:
        MachineError: There is no such grid, its file breaks a constraint, or a figure is impossible.
    """
    name, *parts = argument.split(",")
    figures: dict[str, int] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key != BATCH and key not in BOUNDS:
            raise MachineError(f"figures of a grid are {', '.join((*BOUNDS, BATCH))}; got {one_line(key)[:60]!r}")
        figures[key] = read_number(key, value)
    batch = figures.pop(BATCH, 1)
    if not 1 <= batch <= MOST_BATCH:
        raise MachineError(f"batch must be a whole number from 1 to {MOST_BATCH}, got {batch}; try batch=8")
    try:
        return checked(replace(find_grid(name), **figures)), batch  # type: ignore[arg-type]  # names of BOUNDS
    except ValueError as error:
        raise MachineError(f"grid {one_line(name)[:80]}: {error}") from error


def read_number(key: str, text: str) -> int:
    """The number of a figure, with K, M or G for powers of 1024.

    Raises:
        MachineError: The text spells none.
    """
    match = NUMBER.fullmatch(text)
    if match is None:
        raise MachineError(f"{key} must be a whole number, such as 48K; got {one_line(text)[:60]!r}")
    return int(match[1]) << UNITS[match[2]]


def find_grid(name: str) -> Grid:
    """The grid that a user names: a shipped one, a file, or a size.

    Raises:
        MachineError: There is none, or its file breaks a constraint.
    """
    if name.endswith(".toml"):
        return read_grid(read_text(name, MOST_BYTES, "a grid's file must be readable TOML", MachineError), name)
    shipped = shipped_grids()
    if name in shipped:
        return shipped[name]
    if size := SIZE.fullmatch(name):
        return replace(shipped[PLAIN], name=name, rows=int(size[1]), columns=int(size[2]))
    raise MachineError(
        f"a grid must be one of {', '.join(shipped)}, a size such as 64x64, or a file that ends in .toml; "
        f"got {one_line(name)[:80]!r}; docs/how-to/mesh.md describes the file"
    )


@cache
def shipped_grids() -> Mapping[str, Grid]:
    """The grids whose files are part of this package, by name."""
    return shipped_in(SHIPPED, read_grid)


def read_grid(text: str, source: str) -> Grid:
    """The grid that a text describes.

    Args:
        text: TOML.
        source: Name of the file, for messages.

    Raises:
        MachineError: The text is no TOML, or breaks a constraint.
    """
    try:
        data = tomllib.loads(text)
        if data.pop("format_version", None) != FORMAT:
            raise ValueError(f"format_version must be {FORMAT}")
        return checked(grid_of(data))
    except ValueError as error:
        raise MachineError(f"{source} must describe a grid: {one_line(str(error))}") from error


def grid_of(data: Mapping[str, Any]) -> Grid:
    """The grid that keys and values describe.

    Raises:
        ValueError: A key is missing, or none of a grid.
    """
    known = {field.name for field in fields(Grid)}
    needed = {"name", "source", *(key for key, (least, _) in BOUNDS.items() if least > 0)}
    if unknown := sorted(one_line(key)[:60] for key in data if key not in known):
        raise ValueError(f"it may say no more than {', '.join(sorted(known))}; got {', '.join(unknown[:5])}")
    if missing := sorted(needed - set(data)):
        raise ValueError(f"it must say {', '.join(missing)}")
    return Grid(**data)


def checked(grid: Grid) -> Grid:
    """A grid whose figures are possible.

    Raises:
        ValueError: One is not; the sentence has the constraint.
    """
    for key in ("name", "source"):
        check_text(key, getattr(grid, key), 1, MOST_CHARACTERS)
    for key, (least, most) in BOUNDS.items():
        check_number(key, getattr(grid, key), least, most)
    if grid.program >= grid.memory:
        raise ValueError(f"program must be less than memory, {grid.memory}, got {grid.program}")
    return grid
