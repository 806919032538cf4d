"""Write blocks of pages from what is recorded, or tell which are stale, all in one process: `render.py NAME..`."""

from importlib import import_module
from typing import Annotated

import typer
from blocks import Block, Check


def render(names: Annotated[list[str], typer.Argument(help="Blocks, by their scripts.")], check: Check = False) -> None:
    """Write blocks from what is recorded.

    Raises:
        typer.Exit: They are only looked at, and some are stale.
    """
    stale = False
    for name in names:
        block: Block = import_module(name).BLOCK
        try:
            block.render(check)
        except typer.Exit:
            stale = True
    if stale:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(render)
