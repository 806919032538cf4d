"""A case: inputs at which a payload is verified and measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Inputs that are no random data, such as the position a token is decoded at.

    Attributes:
        values: What every element of an input is, by name.
        weight: How many calls at this case stand in one call of the whole that is timed.
    """

    values: tuple[tuple[str, int], ...] = ()
    weight: int = 1
