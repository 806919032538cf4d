"""Messages to the user on stderr, safe for any characters in them."""

import os
import sys
from contextlib import suppress

from autotune.core.printable import brief_line, fold


def complain(sentence: str) -> None:
    """Print a sentence after the program's name: wrapped on a terminal, one line anywhere else."""
    say(f"autotune: {brief_line(sentence)}", hanging=2)


def say(sentence: str, hanging: int = 0) -> None:
    """Print one line, wrapped between words on a terminal; write errors are ignored.

    Args:
        sentence: Text without line breaks.
        hanging: Indentation of all lines but the first.
    """
    if sys.stderr.isatty():
        sentence = "\n".join(fold(sentence, os.get_terminal_size(sys.stderr.fileno()).columns or 80, 0, hanging))
    with suppress(OSError):  # a full disk, or a reader that is gone, changes no exit code
        sys.stderr.write(f"{sentence}\n")  # written directly: memory may be exhausted
