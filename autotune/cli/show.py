"""`autotune show`: a payload or bundle after a stage of the flow."""

from typing import Annotated

import typer


def show(
    source: Annotated[str, typer.Argument(metavar="PAYLOAD|BUNDLE", help="A payload as for `tune`, or a folder.")],
    stage: Annotated[
        str, typer.Option(help="payload, tasks, schedule, bufferized, lowered, llvm or asm.")
    ] = "schedule",
    task: Annotated[str | None, typer.Option(metavar="TAG", help="One task alone; `--stage tasks` lists them.")] = None,
    config: Annotated[str | None, typer.Option(metavar="K=V,...", help="Knobs of that task.")] = None,
) -> None:
    """Print a payload, or a bundle, after a stage of the flow; on stderr, how much memory its buffers take.

    Example: autotune show nano --stage bufferized
    """
    from autotune.show import show

    shown = show(source, stage, task, config)
    typer.echo(shown.text.rstrip())
    if shown.note:
        typer.echo(shown.note, err=True)
