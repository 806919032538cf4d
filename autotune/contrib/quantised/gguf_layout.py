"""Where the parts of a GGUF file lie, walked before package `gguf` reads it: that believes every length and number.

    GGUF version counts   key type value ...   name sizes format offset ...   numbers of the tensors

Every length is held against what is left of the file, so that one that is cut or lies about itself costs nothing.
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
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by number of type
STRING, LIST, U32 = 8, 9, 4
LEAST = {STRING: 8, LIST: 12, **WIDTHS}  # bytes of the shortest value
MOST_DEEP = 4  # lists in lists
MOST_DIMENSIONS = 4
ALIGNMENT = 32
MOST_NAME = 60  # letters of a name in a message


@dataclass(frozen=True)
class StoredFormats:
    """How formats lie in a file.

    Attributes:
        names: Names of formats by number.
        blocks: Elements and bytes of a block, by number of format.
    """

    names: Mapping[int, str]
    blocks: Mapping[int, tuple[int, int]]


@dataclass
class Walk:
    """A position in a file.

    Attributes:
        data: The file.
        at: Bytes before it.
    """

    data: mmap.mmap
    at: int = 0

    def take(self, count: int, what: str) -> bytes:
        """The next bytes.

        Raises:
            UnsupportedError: The file ends within them.
        """
        self.skip(count, what)
        return self.data[self.at - count : self.at]

    def skip(self, count: int, what: str) -> None:
        """Go on behind the next bytes.

        Raises:
            UnsupportedError: The file ends within them.
        """
        if count > len(self.data) - self.at:
            raise UnsupportedError(
                f"it must be a whole GGUF file, its {len(self.data)} bytes end within {what}; fetch it again"
            )
        self.at += count

    def number(self, form: str, what: str) -> int:
        """The next number, of a format of `struct`."""
        (found,) = struct.unpack("<" + form, self.take(struct.calcsize(form), what))
        return int(found)

    def text(self, what: str) -> str:
        """The next text, as a message has it."""
        count = self.number("Q", what)
        self.skip(count, what)
        start = self.at - count
        return one_line(self.data[start : start + min(count, MOST_NAME)].decode(errors="replace"))[:MOST_NAME]

    def value(self, kind: int, what: str, depth: int = 0) -> None:
        """Go on behind a value.

        Raises:
            UnsupportedError: The type is unknown, or lists are in more lists than any.
        """
        if kind in WIDTHS:
            self.skip(WIDTHS[kind], what)
        elif kind == STRING:
            self.skip(self.number("Q", what), what)
        elif kind == LIST and depth < MOST_DEEP:
            kind, count = self.number("I", what), self.number("Q", what)
            if kind in WIDTHS:
                self.skip(count * WIDTHS[kind], what)
                return
            if (least := count * LEAST.get(kind, 1)) > len(self.data) - self.at:
                self.skip(least, what)
            for _ in range(count):
                self.value(kind, what, depth + 1)
        else:
            raise UnsupportedError(f"{what} must be a number, text or list, its type {kind} is none; convert it again")


def check_layout(path: Path, formats: StoredFormats) -> None:
    """Raise unless a file has all that it says it has.

    Raises:
        UnsupportedError: The file is cut, of another kind or version, or says what cannot be.
    """
    if path.stat().st_size < len(MAGIC):
        raise UnsupportedError(f"it must be a whole GGUF file, it has {path.stat().st_size} bytes; fetch it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        walk = Walk(data)
        if (found := walk.take(len(MAGIC), "its first word")) != MAGIC:
            raise UnsupportedError(
                f"it must be a GGUF file and begin with {MAGIC!r}, it begins with {found!r}; check the path"
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
            kind = walk.number("I", f"the type of {key}")
            start = walk.at
            walk.value(kind, key)
            if key == "general.alignment" and kind == U32:
                alignment = int.from_bytes(data[start : walk.at], "little")
        check_tensors(walk, tensors, alignment, formats)


def check_tensors(walk: Walk, count: int, alignment: int, formats: StoredFormats) -> None:
    """Raise unless all tensors lie within the file.

    Raises:
        UnsupportedError: A tensor does not, or is of an unknown format or a shape that none has.
    """
    ends: list[tuple[int, str]] = []
    for number in range(count):
        name = walk.text(f"the name of tensor {number + 1} of {count}") or f"{number + 1} of {count}"
        what = f"what it says of tensor {name}"
        rank = walk.number("I", what)
        if not 1 <= rank <= MOST_DIMENSIONS:
            raise UnsupportedError(f"tensor {name} must have 1 to 4 dimensions, it has {rank}; convert it again")
        sizes = [walk.number("Q", what) for _ in range(rank)]
        kind, offset = walk.number("I", what), walk.number("Q", what)
        if kind not in formats.blocks:
            raise UnsupportedError(
                f"tensor {name} must be in a format that package gguf knows, number {kind} is none; "
                "quantise it as Q8_0 or Q4_0"
            )
        block, size = formats.blocks[kind]
        if not all(sizes) or sizes[0] % block:
            raise UnsupportedError(
                f"tensor {name} must have rows of whole blocks of {block} in {formats.names[kind]}, its sizes are "
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
