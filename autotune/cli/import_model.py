"""`autotune import`: import a model of another tool into a payload folder."""

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file: model.onnx, .pt2, .gguf, .mlir; open sizes as NAME=SIZE.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="The folder.", show_default="the file's name"),
    ] = None,
) -> None:
    """Import a model: its text, its weights, and what its framework computes of two inputs, as a folder of plain files.

    Every verb takes the folder as PAYLOAD, or the file itself, which is then imported once and kept.

    Example: autotune import model.onnx -o model
    """
    from autotune.cli.say import complain
    from autotune.core.progress import ProgressLine
    from autotune.tuning.tunable import payload, tasks
    from autotune.worker.loading.importing import import_model as import_into

    path = Path(model.partition(",")[0])
    folder = output if output is not None else path.parent / path.stem
    with ProgressLine(model) as line:
        line.stage("importing, half a minute for a large model")
        import_into(model, folder)
        line.stage("finding its tasks")
        imported = payload(str(folder))
        parts = tasks(imported)
    weights = sum(a.bytes for a in imported.arguments if a.role == "weight")
    typer.echo(f"{folder}: {len(parts)} tasks, {weights / 2**20:.1f} MiB of weights; autotune tune {folder}")
    for note in imported.notes:
        complain(note)
