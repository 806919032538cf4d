"""What TOML files describe, machines and grids among them: constraints of single values, and shipped files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from autotune.core.printable import one_line


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """Name that people know it by."""


Thing = TypeVar("Thing", bound=Named)


def shipped_in(folder: Path, read: Callable[[str, str], Thing]) -> Mapping[str, Thing]:
    """What the TOML files of a folder describe, by name.

    Args:
        folder: A folder of a package.
        read: Reader of a file's text; it is given the file's name too, for messages.
    """
    found = (read(path.read_text(encoding="utf-8"), path.name) for path in sorted(folder.glob("*.toml")))
    return {thing.name: thing for thing in found}


def check_text(key: str, value: object, least: int, most: int) -> str:
    """A value that must be one line of text, of so many characters.

    Raises:
        ValueError: The value is none.
    """
    if not isinstance(value, str) or not least <= len(value) <= most or not value.isprintable():
        raise ValueError(f"{key} must be one line of text, got {one_line(repr(value))[:60]}")
    return value


def check_number(key: str, value: object, least: int, most: int) -> int:
    """A value that must be a whole number of a range, ends included.

    Raises:
        ValueError: The value is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} must be a whole number from {least} to {most}, got {one_line(repr(value))[:60]}")
    return value
