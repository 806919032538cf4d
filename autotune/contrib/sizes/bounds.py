"""Bounds of dimensions that a model leaves open, as the user gives them: ``tokens=1..512``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.core.errors import PayloadError
from autotune.core.printable import one_line

Sizes = Mapping[str, int]  # of every open dimension, by name
FORM = re.compile(r"([^=\s]+)=([0-9]{1,9})\.\.([0-9]{1,9})")


@dataclass(frozen=True)
class Bounds:
    """What sizes of a dimension are served.

    Attributes:
        name: Name of the dimension in the model.
        low: Least size, at least 1.
        high: Largest size.
    """

    name: str
    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Bounds":
        """Bounds as they stand on the command line.

        Raises:
            PayloadError: The text is of another form, or the range is empty.

        Example:
            >>> Bounds.parse("tokens=1..512")
            Bounds(name='tokens', low=1, high=512)
        """
        found = FORM.fullmatch(text)
        if found is None:
            raise PayloadError(f"--dim must be NAME=LOW..HIGH, got {one_line(text)[:80]!r}; give --dim tokens=1..512")
        bounds = cls(found[1], int(found[2]), int(found[3]))
        if not 1 <= bounds.low <= bounds.high:
            raise PayloadError(
                f"range of {bounds.name} must begin at 1 or more and hold a size, got {bounds.low}..{bounds.high}; "
                f"give --dim {bounds.name}=1..{max(bounds.low, bounds.high, 1)}"
            )
        return bounds

    def check(self, size: int) -> None:
        """Refuse a size that is not served.

        Raises:
            PayloadError: The size is out of bounds.
        """
        if not self.low <= size <= self.high:
            raise PayloadError(
                f"{self.name} must be from {self.low} to {self.high}, got {size}; import the model with other bounds"
            )


def parse_bounds(texts: Sequence[str]) -> tuple[Bounds, ...]:
    """Bounds of several dimensions.

    Raises:
        PayloadError: One is of another form, empty, or given twice.
    """
    found = tuple(map(Bounds.parse, texts))
    names = [each.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PayloadError(f"--dim must give a dimension once, got {twice[0]} {names.count(twice[0])} times")
    return found


def name_of(sizes: Sizes) -> str:
    """Name of a compiled size, as folders and messages have it.

    Example:
        >>> name_of({"batch": 1, "tokens": 64})
        'batch=1,tokens=64'
    """
    return ",".join(f"{name}={size}" for name, size in sizes.items())
