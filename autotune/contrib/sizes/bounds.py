"""Bounds of open dimensions as given by the user, such as ``tokens=1..512``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.core.errors import PayloadError
from autotune.core.printable import one_line

Sizes = Mapping[str, int]  # size of every open dimension, by name
FORM = re.compile(r"([^=\s]+)=([0-9]{1,9})\.\.([0-9]{1,9})")


@dataclass(frozen=True)
class Bounds:
    """Range of the sizes of a dimension that are served.

    Attributes:
        name: Name of the dimension in the model.
        low: Minimum size, at least 1.
        high: Maximum size.
    """

    name: str
    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Bounds":
        """Parse the bounds of a dimension from the command line.

        Raises:
            PayloadError: The text does not match, or the range is empty.

        Example:
            >>> Bounds.parse("tokens=1..512")
            Bounds(name='tokens', low=1, high=512)
        """
        match = FORM.fullmatch(text)
        if match is None:
            raise PayloadError(f"--dim must be NAME=LOW..HIGH, got {one_line(text)[:80]!r}; give --dim tokens=1..512")
        bounds = cls(match[1], int(match[2]), int(match[3]))
        if not 1 <= bounds.low <= bounds.high:
            raise PayloadError(
                f"range of {bounds.name} must begin at 1 or more and hold a size, got {bounds.low}..{bounds.high}; "
                f"give --dim {bounds.name}=1..{max(bounds.low, bounds.high, 1)}"
            )
        return bounds

    def check(self, size: int) -> None:
        """Check that a size is served.

        Raises:
            PayloadError: The size is out of bounds.
        """
        if not self.low <= size <= self.high:
            raise PayloadError(
                f"{self.name} must be from {self.low} to {self.high}, got {size}; import the model with other bounds"
            )


def parse_bounds(texts: Sequence[str]) -> tuple[Bounds, ...]:
    """Parse the bounds of several dimensions.

    Raises:
        PayloadError: A text does not match, a range is empty, or a dimension is given twice.
    """
    bounds = tuple(map(Bounds.parse, texts))
    names = [each.name for each in bounds]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PayloadError(f"--dim must give a dimension once, got {twice[0]} {names.count(twice[0])} times")
    return bounds


def name_of(sizes: Sizes) -> str:
    """Return the name of a compiled size, as used in folders and messages.

    Example:
        >>> name_of({"batch": 1, "tokens": 64})
        'batch=1,tokens=64'
    """
    return ",".join(f"{name}={size}" for name, size in sizes.items())
