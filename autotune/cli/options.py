"""What several verbs of the command line share: arguments, options, and where results go."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.core.machine import this_machine

Payloads = Annotated[
    list[str],
    typer.Argument(
        metavar="PAYLOAD...", help="nano, gpt2,seq=64, matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`."
    ),
]
StorePath = Annotated[str | None, typer.Option("--store", metavar="PATH", help="Store of trials, or a database URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def home() -> Path:
    """Where results of this machine go by default."""
    machine = this_machine()
    return Path("results") / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return "".join(c if c.isalnum() or c in "=,._-" else "_" for c in payload)
