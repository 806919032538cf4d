"""Sentences to the user, beside results: a line each on stderr, whatever characters are in it."""

import sys

from autotune.core.printable import one_line


def complain(sentence: str) -> None:
    """Print one line that begins with the program's name."""
    sys.stderr.write(f"autotune: {one_line(sentence)}\n")  # plainly: there may be no memory for more
