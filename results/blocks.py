"""Blocks of pages that recorded files fill: `results/NAME.py measure` records, `results/NAME.py render` writes.

A block is what stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->`` on a page: a part for every machine that
has results/<machine>/NAME. It holds nothing that is not in these files: `render --check` fails when it is stale.
"""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.core.host.machine import this_machine

ROOT = Path(__file__).resolve().parent
PAGE = ROOT.parent / "docs" / "results.md"

Only = Annotated[str, typer.Option(help="Only payloads that contain this.")]
Check = Annotated[bool, typer.Option(help="Only tell whether the page is up to date.")]


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return payload.replace(",", "_").replace("=", "")


def home() -> Path:
    """Where results of this machine live."""
    machine = this_machine()
    return ROOT / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def run(command: list[str]) -> str:
    """Run a command that must succeed; gives what it prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def keep(name: str, payload: str, found: Mapping[str, object]) -> None:
    """Record what was measured of a payload on this machine."""
    target = home() / name / f"{slug(payload)}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")


def read(folder: Path, payload: str) -> dict[str, Any]:
    """What was recorded of a payload; empty if nothing was."""
    path = folder / f"{slug(payload)}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def serve(name: str, measure: Callable[..., None], part: Callable[[Path], str], place: str = "") -> None:
    """Be the command line of a block that is measured.

    Args:
        name: Name of the block.
        measure: Command that records anew.
        part: Gives what a machine's results look like on the page.
        place: Path of the results below a machine's folder; by default what the block's name says.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command("measure")(measure)

    @app.command()
    def render(check: Check = False) -> None:
        """Write the block from what is recorded."""
        replace_block(PAGE, name, "".join(map(part, sorted(ROOT.glob(f"*/{place or name}")))), check=check)

    app()


def table(head: Sequence[str], rows: Sequence[str]) -> str:
    """Rows, each a line of Markdown, under their heads."""
    return "\n".join((f"| {' | '.join(head)} |".replace("|  |", "| |"), f"|{'---|' * len(head)}", *rows)) + "\n"


def replace_block(page: Path, name: str, block: str, *, check: bool) -> None:
    """Put a text between the marks of a page, or only tell whether it is there.

    Raises:
        typer.Exit: It is not there.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text()
    before, rest = text.split(begin)
    fresh = f"{before}{begin}\n{block}{end}{rest.split(end)[1]}"
    if check and fresh != text:
        typer.echo(f"{page.name} must show what is recorded of {name}; run `make docs`", err=True)
        raise typer.Exit(1)
    page.write_text(fresh)
