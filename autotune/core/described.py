"""Objects described by TOML files, such as machines and grids: validation of values, and files shipped in packages."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from autotune.core.printable import one_line


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """Name that users refer to it by."""


Thing = TypeVar("Thing", bound=Named)


def shipped_in(folder: Path, read: Callable[[str, str], Thing]) -> Mapping[str, Thing]:
    """Read the objects that the TOML files of a folder describe, by name.

    Args:
        folder: Folder of a package.
        read: Parser of a file's text, called with the text and the file's name, for messages.
    """
    things = (read(path.read_text(encoding="utf-8"), path.name) for path in sorted(folder.glob("*.toml")))
    return {each.name: each for each in things}


def check_text(key: str, value: object, least: int, most: int) -> str:
    """Return a value that must be one line of printable text, of `least` to `most` characters.

    Raises:
        ValueError: The value is anything else.
    """
    if not isinstance(value, str) or not least <= len(value) <= most or not value.isprintable():
        raise ValueError(f"{key} must be one line of text, got {one_line(repr(value))[:60]}")
    return value


def check_number(key: str, value: object, least: int, most: int) -> int:
    """Return a value that must be an integer from `least` to `most`, both included.

    Raises:
        ValueError: The value is anything else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} must be a whole number from {least} to {most}, got {one_line(repr(value))[:60]}")
    return value
