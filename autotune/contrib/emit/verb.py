"""`autotune emit`: a tuned payload as a library for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.plugins import Verb
from autotune.store.folders import OUTPUT

FORMS = ("c", "cmake", "wheel", "onnx")
TEXTS = ("object", "llvm", "asm")


def emit(
    bundles: Annotated[
        list[Path],
        typer.Argument(metavar="BUNDLE", help="Bundles of one payload, each tuned on a machine of another level."),
    ],
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help=f"What to write: {', '.join((*FORMS, *TEXTS))}.")
    ] = "c",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where it writes.")] = OUTPUT
    / "emitted",
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="Level of x86-64 that it must run on, such as x86-64-v3; the best of several is picked when it is "
            "loaded. By default those of the bundles; others get default schedules.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A safetensors file of the weights, left where it is; else one is written."),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="PAYLOAD", help="File or folder of what it computes, where you did not name it before."),
    ] = None,
) -> None:
    """Write a tuned payload as a library: no Python, no MLIR, no allocation in a call.

    Example: autotune emit tuned/MACHINE/bundles/nano --as c
    """
    from autotune.contrib.emit.forms import emit_as

    for path in emit_as(bundles, form, output, tuple(target or ()), weights, payload):
        typer.echo(path)


VERB = Verb(emit, "Keep and check", "Write a tuned payload as a library for other programs.", after="replay")
