"""What tuning reaches, in docs/results.md: measure it (`measure`), and write its table (`render`).

Each figure is one `autotune tune` command; its JSON goes to results/<machine>/figures.json, its bundle beside it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, Only, home, keep, read, run, slug, table


@dataclass(frozen=True)
class Figure:
    """One row of the table: a command, and what it should reach."""

    payload: str
    options: str
    target: str


FIGURES = (
    Figure("matmul,m=512,n=512,k=512", "--trials 100 --seed 0", "85 % of the roof, 110 trials a minute"),
    Figure("matmul,m=256,n=512,k=512", "--trials 100 --seed 0", "85 % of the roof"),
    Figure("matmul,m=512,n=512,k=512,constant_b=1", "--trials 100 --seed 0", "90 % of the roof"),
    Figure("matmul,m=509,n=509,k=509", "--trials 100 --seed 0", "85 % of the roof"),
    Figure("matmul,m=128,n=50257,k=768", "--trials 40 --seed 0", "85 % of the roof"),
    Figure("nano", "--trials 200 --seed 0", "10 x `passes`"),
    Figure("matmul,m=64,n=64,k=64", "--trials 1000 --seed 0", "the tuner's own cost under 8 ms a trial"),
)


HEAD = (
    "`autotune tune` ...",
    "time",
    "of the FMA roof",
    "over `passes` (95 % interval)",
    "trials a minute",
    "tuner's own ms a trial",
    "target",
)


def measure(only: Only = "") -> None:
    """Run every figure's command from an empty store."""
    for figure in FIGURES:
        if only not in figure.payload:
            continue
        bundle = home() / "bundles" / slug(figure.payload)
        with TemporaryDirectory() as folder:
            command = ["autotune", "tune", figure.payload, *figure.options.split(), "--cold", "--anew", "--json"]
            command += ["--store", f"{folder}/store.journal", "--bundle", str(bundle)]
            found = json.loads(run(command))
        del found["bundle"]
        keep("figures", figure.payload, found)
        typer.echo(row(figure, found))


def part(path: Path) -> str:
    """A recorded machine's figures."""
    found = {figure: read(path, figure.payload) for figure in FIGURES}
    rows = [row(figure, data) for figure, data in found.items() if data]
    first = next(data for data in found.values() if data)
    machine, roofs = first["machine"], first["roofs"]
    return (
        f"\n{machine['cpu']}, {machine['isa']}, one core; FMA roof {roofs['flops'] / 1e9:.1f} GFLOP/s, "
        f"memory {roofs['dram_bytes'] / 1e9:.1f} GB/s (`autotune doctor`):\n\n" + table(HEAD, rows)
    )


def row(figure: Figure, data: dict[str, Any]) -> str:
    """One line of the table."""
    best, (low, high) = data["best"], data["speedup_interval"]
    rate = 60 * data["evaluated"] / data["search_seconds"]
    own = 1e3 * data["overhead_seconds"] / data["evaluated"]
    return (
        f"| `{figure.payload} {figure.options}` | {1e3 * best['seconds']:.3g} ms | {best['roof_fraction']:.1%} "
        f"| {data['speedup']:.3g} x [{low:.3g}, {high:.3g}] | {rate:.0f} | {own:.1f} | {figure.target} |"
    )


BLOCK = Block("figures", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
