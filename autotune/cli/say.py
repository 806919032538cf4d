"""Sentences to the user, beside results: a line each on stderr, whatever characters are in it."""

import typer

from autotune.core.printable import one_line


def complain(sentence: str) -> None:
    """Print one line that begins with the program's name."""
    typer.echo(f"autotune: {one_line(sentence)}", err=True)
