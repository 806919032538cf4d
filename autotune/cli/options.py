"""What several verbs of the command line share: arguments, options, and where results go."""

from typing import Annotated

import typer

Payloads = Annotated[
    list[str],
    typer.Argument(
        metavar="PAYLOAD...", help="nano, gpt2,seq=64, matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`."
    ),
]
StorePath = Annotated[str | None, typer.Option("--store", metavar="PATH", help="Store of trials, or a database URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
