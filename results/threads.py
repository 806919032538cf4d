"""Several threads in docs/results.md: tune and compare on all cores (`measure`), and write their table (`render`).

Each row is one `autotune tune --threads N` command and one `autotune compare --threads N` beside it, in which everybody
runs on N threads and on one, in turn. Bundles are not kept. Needs the extras `threads` and `compare`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Only, keep, read, run, serve, table
from comparisons import advantage

from autotune.core.cores import physical_cores
from autotune.reports.format import duration

LIBRARY = "onnxruntime"
HEAD = (
    "payload",
    "threads",
    "ours",
    "efficiency",
    "ONNX Runtime",
    "its efficiency",
    "over ONNX Runtime",
    "targets: ratio, efficiency",
)


@dataclass(frozen=True)
class Work:
    """One row of the table.

    Attributes:
        payload: Spec of the payload.
        ratio: Speed-up over ONNX Runtime on as many threads that it should reach.
        efficiency: Time on one thread over N times that on N which it should reach; empty for none.
        trials: Number of trials of the sweep before.
        baseline: Baseline of the sweep; `loops` where the pass pipeline takes minutes a call.
    """

    payload: str
    ratio: str
    efficiency: str = ""
    trials: int = 20
    baseline: str = "passes"


WORKS = (
    Work("matmul,m=512,n=512,k=512,constant_b=1", "1", "0.92"),
    Work("matmul,m=1024,n=1024,k=1024,constant_b=1", "1", "0.92"),
    Work("matmul,m=128,n=3072,k=768,constant_b=1", "1", "0.92"),
    Work("attention,heads=12,seq=128,d=64,causal=1", "1.5"),
    Work("nano", "1.2", trials=60),
    Work("gpt2", "1.15", "0.90", 30, "loops"),
)


def measure(only: Only = "") -> None:
    """Tune every payload from an empty store on all physical cores, then compare it."""
    threads = str(len(physical_cores()))
    for work in WORKS:
        if only in work.payload:
            with TemporaryDirectory() as folder:
                options = ["--threads", threads, "--baseline", work.baseline]
                sweep = ["--trials", str(work.trials), "--cold", "--store", f"{folder}/store.journal"]
                run(["autotune", "tune", work.payload, *options, *sweep, "--bundle", f"{folder}/bundle", "--json"])
                race = ["--threads", threads, "--baseline", "none", "--against", LIBRARY, "--json"]
                said = run(["autotune", "compare", work.payload, "--bundle", f"{folder}/bundle", *race])
            found = json.loads(said)
            del found["notes"]  # they name places on this machine
            keep("threads", work.payload, found)
            typer.echo(row(work, found))


def part(folder: Path) -> str:
    """What a recorded machine's cores do together."""
    found = {work: read(folder, work.payload) for work in WORKS}
    rows = [row(work, data) for work, data in found.items() if data]
    return f"\nIn `results/{folder.parent.name}`:\n\n" + table(HEAD, rows)


def row(work: Work, data: dict[str, Any]) -> str:
    """One line of the table."""
    rows = {each["name"]: each for each in data["rows"]}
    mine, theirs = rows["best"], rows.get(LIBRARY, {})
    cells = [f"`{work.payload}`", str(data["machine"]["threads"]), duration(mine["seconds"]), efficiency(mine)]
    cells += [duration(theirs.get("seconds")), efficiency(theirs), advantage(rows)]
    cells.append(", ".join(filter(None, (f"{work.ratio} x", work.efficiency))))
    return "| " + " | ".join(cells) + " |"


def efficiency(row: dict[str, Any]) -> str:
    """The time on one thread over N times that on N."""
    return f"{row['efficiency']:.2f}" if row.get("efficiency") is not None else "-"


if __name__ == "__main__":
    serve("threads", measure, part)
