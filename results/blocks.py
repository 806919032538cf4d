"""Blocks of pages that recorded files fill: `results/NAME.py measure` records, `results/NAME.py render` writes.

A block is what stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->`` on a page: a part for every machine that
has results/<machine>/NAME.json. It holds nothing that is not in these files: `render --check` fails when it is stale.
Such a file is one object of JSON, an entry a line, by payload or whatever else was measured.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.core.host.machine import this_machine

ROOT = Path(__file__).resolve().parent
PAGE = ROOT.parent / "docs" / "results.md"
ALONE = ("bundles", "comparisons", "grid")  # folders of files that are read one by one

Only = Annotated[str, typer.Option(help="Only payloads that contain this.")]
Check = Annotated[bool, typer.Option(help="Only tell whether the page is up to date.")]


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return payload.replace(",", "_").replace("=", "")


def home() -> Path:
    """Where results of this machine live."""
    machine = this_machine()
    return ROOT / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def file_of(name: str) -> Path:
    """The file that holds what was measured for a block on this machine."""
    return home() / f"{name}.json"


def run(command: list[str]) -> str:
    """Run a command that must succeed; gives what it prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def keep(name: str, entry: str, found: Mapping[str, object]) -> None:
    """Record what was measured of a payload on this machine, in the file of a block; its other entries stay."""
    keep_all(file_of(name), dict(sorted((load(file_of(name)) | {slug(entry): found}).items())))


def keep_all(path: Path, found: Mapping[str, object]) -> None:
    """Record all that a file holds, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(f"{text_of(found)}\n")
    os.replace(part, path)


def text_of(found: Mapping[str, object]) -> str:
    """An object of JSON, an entry a line; also those of its objects that hold nothing but objects."""
    lines = (
        f"{json.dumps(key)}: {text_of(each) if holds_entries(each) else json.dumps(each)}"
        for key, each in found.items()
    )
    return "{{\n{}\n}}".format(",\n".join(lines))


def holds_entries(value: object) -> bool:
    """Whether a value is an object of objects."""
    return isinstance(value, dict) and bool(value) and all(isinstance(each, dict) for each in value.values())


def load(path: Path) -> dict[str, Any]:
    """All that a file holds; empty if there is none."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def read(path: Path, entry: str) -> dict[str, Any]:
    """What a file holds of a payload; empty if nothing was recorded."""
    return dict(load(path).get(slug(entry), {}))


@dataclass(frozen=True)
class Block:
    """A block that is measured.

    Attributes:
        name: Name of the block.
        part: Gives what a machine's file looks like on the page.
        measure: Command that records anew; `None` where other blocks do.
        pattern: Files of the block, a pattern below results/; by default a file a machine by the block's name.
        page: Page that it stands on.
    """

    name: str
    part: Callable[[Path], str]
    measure: Callable[..., None] | None = None
    pattern: str = ""
    page: Path = PAGE

    def render(self, check: Check = False) -> None:
        """Write the block from what is recorded.

        Raises:
            typer.Exit: It is only looked at, and the page shows something else.
        """
        if self.name not in ALONE and any(ROOT.glob(f"*/{self.name}/*.json")):
            raise typer.BadParameter(f"entries of {self.name} must lie in one file a machine; run results/blocks.py")
        files = sorted(ROOT.glob(self.pattern or f"*/{self.name}.json"))
        replace_block(self.page, self.name, "".join(map(self.part, files)), check=check)

    def serve(self, *others: Callable[..., None]) -> None:
        """Be the command line of the block, which may have other commands."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        for command in (self.measure, self.render, *others):
            if command is not None:
                app.command()(command)
        app.callback()(lambda: None)  # commands go by their names, also where there is one
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


def fold() -> None:
    """Put files of single entries, as scripts wrote them until 2026-11-25, into the file of their block."""
    for folder in sorted({path.parent for path in ROOT.glob("*/*/*.json")}):
        if folder.name not in ALONE:
            entries = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
            keep_all(
                folder.with_suffix(".json"), dict(sorted({**load(folder.with_suffix(".json")), **entries}.items()))
            )
            shutil.rmtree(folder)


if __name__ == "__main__":
    fold()
