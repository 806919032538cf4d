"""Validation of a GGUF file's layout before package `gguf` reads it, which trusts every length and number.

    GGUF version counts   key type value ...   name sizes format offset ...   numbers of the tensors

Every length is checked against the rest of the file, so that a truncated or forged file is rejected at no cost.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError

MAGIC, VERSIONS = b"GGUF", (2, 3)
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type id
STRING, LIST, U32 = 8, 9, 4
LEAST = {STRING: 8, LIST: 12, **WIDTHS}  # minimum bytes of a value by type id
MOST_DEEP = 4  # levels of nested lists
MOST_DIMENSIONS = 4
ALIGNMENT = 32
MOST_NAME = 60  # characters of a name in a message


@dataclass(frozen=True)
class StoredFormats:
    """Block sizes of the storage formats.

    Attributes:
        names: Names of formats by id.
        blocks: Elements and bytes of a block, by format id.
    """

    names: Mapping[int, str]
    blocks: Mapping[int, tuple[int, int]]


@dataclass
class Walk:
    """A cursor in a file.

    Attributes:
        data: Contents of the file.
        at: Current offset in bytes.
    """

    data: mmap.mmap
    at: int = 0

    def take(self, count: int, title: str) -> bytes:
        """Return the next bytes.

        Raises:
            UnsupportedError: The file ends within them.
        """
        self.skip(count, title)
        return self.data[self.at - count : self.at]

    def skip(self, count: int, title: str) -> None:
        """Skip the next bytes.

        Raises:
            UnsupportedError: The file ends within them.
        """
        if count > len(self.data) - self.at:
            raise UnsupportedError(
                f"it must be a whole GGUF file, its {len(self.data)} bytes end within {title}; fetch it again"
            )
        self.at += count

    def number(self, form: str, title: str) -> int:
        """Read the next number, in a format of `struct`."""
        (value,) = struct.unpack("<" + form, self.take(struct.calcsize(form), title))
        return int(value)

    def text(self, title: str) -> str:
        """Read the next string, sanitized and shortened for messages."""
        count = self.number("Q", title)
        self.skip(count, title)
        start = self.at - count
        return one_line(self.data[start : start + min(count, MOST_NAME)].decode(errors="replace"))[:MOST_NAME]

    def value(self, kind: int, title: str, depth: int = 0) -> None:
        """Skip a value.

        Raises:
            UnsupportedError: The type is unknown, or lists are nested too deeply.
        """
        if kind in WIDTHS:
            self.skip(WIDTHS[kind], title)
        elif kind == STRING:
            self.skip(self.number("Q", title), title)
        elif kind == LIST and depth < MOST_DEEP:
            kind, count = self.number("I", title), self.number("Q", title)
            if kind in WIDTHS:
                self.skip(count * WIDTHS[kind], title)
                return
            if (least := count * LEAST.get(kind, 1)) > len(self.data) - self.at:
                self.skip(least, title)
            for _ in range(count):
                self.value(kind, title, depth + 1)
        else:
            raise UnsupportedError(f"{title} must be a number, text or list, its type {kind} is none; convert it again")


def check_layout(path: Path, formats: StoredFormats) -> None:
    """Check that a file has all the contents that it states.

    Raises:
        UnsupportedError: The file is truncated, of another format or version, or states something invalid.
    """
    if path.stat().st_size < len(MAGIC):
        raise UnsupportedError(f"it must be a whole GGUF file, it has {path.stat().st_size} bytes; fetch it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        walk = Walk(data)
        if (magic := walk.take(len(MAGIC), "its first word")) != MAGIC:
            raise UnsupportedError(
                f"it must be a GGUF file and begin with {MAGIC!r}, it begins with {magic!r}; check the path"
            )
        version = walk.number("I", "its version")
        if version and version % (1 << 16) == 0:
            raise UnsupportedError("it must be stored for little-endian machines, it is not; convert it again")
        if version not in VERSIONS:
            raise UnsupportedError(f"it must be a GGUF file of version 2 or 3, it is of {version}; convert it again")
        tensors, values = walk.number("Q", "its counts"), walk.number("Q", "its counts")
        alignment = ALIGNMENT
        for number in range(values):
            key = walk.text(f"the key of value {number + 1} of {values}")
            type_id = walk.number("I", f"the type of {key}")
            start = walk.at
            walk.value(type_id, key)
            if key == "general.alignment" and type_id == U32:
                alignment = int.from_bytes(data[start : walk.at], "little")
        check_tensors(walk, tensors, alignment, formats)


def check_tensors(walk: Walk, count: int, alignment: int, formats: StoredFormats) -> None:
    """Check that all tensors lie within the file.

    Raises:
        UnsupportedError: A tensor lies outside, or has an unknown format or an invalid shape.
    """
    ends: list[tuple[int, str]] = []
    for number in range(count):
        name = walk.text(f"the name of tensor {number + 1} of {count}") or f"{number + 1} of {count}"
        title = f"what it says of tensor {name}"
        rank = walk.number("I", title)
        if not 1 <= rank <= MOST_DIMENSIONS:
            raise UnsupportedError(f"tensor {name} must have 1 to 4 dimensions, it has {rank}; convert it again")
        sizes = [walk.number("Q", title) for _ in range(rank)]
        format_id, offset = walk.number("I", title), walk.number("Q", title)
        if format_id not in formats.blocks:
            raise UnsupportedError(
                f"tensor {name} must be in a format that package gguf knows, number {format_id} is none; "
                "quantise it as Q8_0 or Q4_0"
            )
        block, size = formats.blocks[format_id]
        if not all(sizes) or sizes[0] % block:
            raise UnsupportedError(
                f"tensor {name} must have rows of whole blocks of {block} in {formats.names[format_id]}, its sizes are "
                f"{'x'.join(map(str, reversed(sizes)))}; quantise it again"
            )
        ends.append((offset + prod(sizes) // block * size, name))
    if alignment < 1 or alignment & (alignment - 1):
        raise UnsupportedError(f"general.alignment must be a power of two, it is {alignment}; convert it again")
    start = -(-walk.at // alignment) * alignment
    for end, name in sorted(ends):
        if start + end > len(walk.data):
            raise UnsupportedError(
                f"it must be a whole GGUF file, tensor {name} ends at byte {start + end} of {len(walk.data)}; "
                "fetch it again"
            )
