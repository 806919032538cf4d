"""Validation of options given on the command line and in Python: integers, real numbers and seeds.

Text is parsed strictly, ASCII digits without underscores: `int` and `float` of Python also accept other spellings.
"""

import math
import operator
import re

from autotune.core.errors import OptionError

MOST_SEED = 2**32 - 1  # NumPy's older generators take no more, and samplers use them
MOST_COUNT = 2**31 - 1
MOST_SECONDS = 1e6  # eleven days; timeouts of the system are 31-bit numbers of milliseconds
LEAST_TIMEOUT = 0.1  # seconds; nothing compiles in less
WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
REAL = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?", re.ASCII)


def read_whole(text: str) -> int:
    """Parse an integer.

    Raises:
        ValueError: The text is no integer: it is empty, has a point, underscores, or digits of another script.

    Example:
        >>> read_whole("-12")
        -12
    """
    if not WHOLE.fullmatch(text):
        raise ValueError(f"must be a whole number like 12, got {text[:50]!r}")
    return int(text)


def read_real(text: str) -> float:
    """Parse a real number.

    Raises:
        ValueError: The text is no number, or is not finite.

    Example:
        >>> read_real("1e3")
        1000.0
    """
    if not REAL.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError(f"must be a number like 1.5, got {text[:50]!r}")
    return float(text)


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise unless an option is an integer from `least` to `most`, both included.

    Raises:
        OptionError: The value is no integer, or out of range.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise OptionError(f"{name} must be a whole number, got {value!r:.50}; try {max(least, 1)}") from error
    if not least <= number <= most:
        raise OptionError(f"{name} must be from {least} to {most}, got {value!r:.50}; try {max(least, 1)}")


def check_real(name: str, value: object, least: float, most: float, example: float = 1.0) -> None:
    """Raise unless an option is a real number from `least` to `most`, both included, and not NaN.

    Raises:
        OptionError: The value is no number, or out of range.
    """
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"{name} must be a number, got {value!r:.50}; try {example:g}") from error
    if not least <= number <= most:
        raise OptionError(f"{name} must be from {least:g} to {most:g}, got {value!r:.50}; try {example:g}")


def check_seed(value: object) -> None:
    """Raise unless a seed is valid for every random number generator in use.

    Raises:
        OptionError: The value is no integer from 0 to `MOST_SEED`.
    """
    check_whole("seed", value, 0, MOST_SEED)
