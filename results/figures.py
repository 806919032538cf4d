"""The figures of the README: measure them (`measure`), and write them into its table (`render`).

Each figure is one `autotune tune` command; its JSON goes to results/<machine>/figures/, its bundle beside it. The
README holds nothing that is not in these files: `render --check` fails when it is stale.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from autotune.machine import this_machine

ROOT = Path(__file__).resolve().parent
README = ROOT.parent / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Figure:
    """One row of the table: a command, and what it should reach."""

    payload: str
    options: str
    target: str


FIGURES = (
    Figure("matmul,m=512,n=512,k=512", "--trials 100 --seed 0", "85 % of the roof, 110 trials a minute"),
    Figure("matmul,m=256,n=512,k=512", "--trials 100 --seed 0", "85 % of the roof"),
    Figure("matmul,m=509,n=509,k=509", "--trials 100 --seed 0", "70 % of the roof"),
    Figure("matmul,m=128,n=50257,k=768", "--trials 40 --seed 0", "70 % of the roof"),
    Figure("nano", "--trials 200 --seed 0", "10 x `passes`"),
    Figure("matmul,m=64,n=64,k=64", "--trials 1000 --seed 0", "the tuner's own cost under 8 ms a trial"),
)


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return payload.replace(",", "_").replace("=", "")


def home() -> Path:
    """Where figures of this machine live."""
    machine = this_machine()
    return ROOT / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


@app.command()
def measure(only: Annotated[str, typer.Option(help="Only payloads that contain this.")] = "") -> None:
    """Run every figure's command from an empty store."""
    for figure in FIGURES:
        if only not in figure.payload:
            continue
        bundle = home() / "bundles" / slug(figure.payload)
        with TemporaryDirectory() as folder:
            command = ["autotune", "tune", figure.payload, *figure.options.split(), "--cold", "--json"]
            command += ["--store", f"{folder}/store.journal", "--bundle", str(bundle)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        del found["bundle"]
        target = home() / "figures" / f"{slug(figure.payload)}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(found, indent=1) + "\n")
        typer.echo(row(figure, found))


@app.command()
def render(check: Annotated[bool, typer.Option(help="Only tell whether the README is up to date.")] = False) -> None:
    """Write the README's table from the recorded figures."""
    replace_block(BEGIN, END, table(), check=check)


def replace_block(begin: str, end: str, block: str, *, check: bool) -> None:
    """Put a text between two marks of the README, or only tell whether it is there.

    Raises:
        typer.Exit: It is not there.
    """
    text = README.read_text()
    before, rest = text.split(begin)
    fresh = f"{before}{begin}\n{block}{end}{rest.split(end)[1]}"
    if check and fresh != text:
        typer.echo("README.md must show the recorded figures; run `make docs`", err=True)
        raise typer.Exit(1)
    README.write_text(fresh)


def table() -> str:
    """Every recorded machine's figures."""
    parts = []
    for folder in sorted(ROOT.glob("*/figures")):
        found = {figure: read(folder / f"{slug(figure.payload)}.json") for figure in FIGURES}
        rows = [row(figure, data) for figure, data in found.items() if data]
        first = next(data for data in found.values() if data)
        machine, roofs = first["machine"], first["roofs"]
        parts.append(
            f"\n{machine['cpu']}, {machine['isa']}, one core; FMA roof {roofs['flops'] / 1e9:.1f} GFLOP/s, "
            f"memory {roofs['dram_bytes'] / 1e9:.1f} GB/s (`autotune doctor`):\n\n"
            "| `autotune tune` ... | time | of the FMA roof | over `passes` (95 % interval) | trials a minute "
            "| tuner's own ms a trial | target |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "".join(parts)


def read(path: Path) -> dict[str, Any]:
    """A recorded figure; empty if there is none."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def row(figure: Figure, data: dict[str, Any]) -> str:
    """One line of the table."""
    best, (low, high) = data["best"], data["speedup_interval"]
    rate = 60 * data["evaluated"] / data["search_seconds"]
    own = 1e3 * data["overhead_seconds"] / data["evaluated"]
    return (
        f"| `{figure.payload} {figure.options}` | {1e3 * best['seconds']:.3g} ms | {best['roof_fraction']:.1%} "
        f"| {data['speedup']:.3g} x [{low:.3g}, {high:.3g}] | {rate:.0f} | {own:.1f} | {figure.target} |"
    )


if __name__ == "__main__":
    sys.exit(app())
