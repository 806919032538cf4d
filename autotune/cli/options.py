"""What several verbs of the command line share: arguments, options, and where results go."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from autotune.core.options import read_real, read_whole

T = TypeVar("T")


def reader(read: Callable[[str], T], name: str) -> Callable[[str], T]:
    """What typer reads an option with: one line where the text is none.

    Args:
        read: Reads a text; raises ValueError where it spells nothing.
        name: Kind of the option, as help shows it.
    """

    def parse(text: str) -> T:
        try:
            return read(str(text))  # defaults come as they are
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    parse.__name__ = name
    return parse


whole, real = reader(read_whole, "INTEGER"), reader(read_real, "FLOAT")

Payloads = Annotated[
    list[str],
    typer.Argument(
        metavar="PAYLOAD...", help="nano, gpt2,seq=64, matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`."
    ),
]
StorePath = Annotated[str | None, typer.Option("--store", metavar="PATH", help="Store of trials, or a database URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
