"""Sentences to the user, beside results: on stderr, whatever characters are in them."""

import os
import sys
from contextlib import suppress

from autotune.core.printable import fold, one_line, without_middle

MOST = 4000  # characters of a sentence: what others wrote, such as a name in it, may be of any length


def complain(sentence: str) -> None:
    """Print a sentence behind the program's name: folded on a terminal, one line anywhere else."""
    say(f"autotune: {without_middle(one_line(sentence), MOST)}", hanging=2)


def say(sentence: str, hanging: int = 0) -> None:
    """Print one line; on a terminal as many as it takes, broken between words. Where nobody can read it, nothing.

    Args:
        sentence: Text without lines.
        hanging: Spaces before all lines but the first.
    """
    if sys.stderr.isatty():
        sentence = "\n".join(fold(sentence, os.get_terminal_size(sys.stderr.fileno()).columns or 80, 0, hanging))
    with suppress(OSError):  # a full disk, or a reader that is gone, changes no exit code
        sys.stderr.write(f"{sentence}\n")  # plainly: there may be no memory for more
