"""Several threads in docs/results.md: tune and compare on all cores (`measure`), and write their table (`render`).

Each row is one `autotune tune --threads N` command and one `autotune compare --threads N` beside it, in which everybody
runs on N threads and on one, in turn. Bundles are not kept. Needs the extras `threads` and `compare`; models of the zoo
need what writes them, and `import`.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, Only, keep, read, run, table
from comparisons import advantage

from autotune.core.console import duration
from autotune.core.host.cores import physical_cores

LIBRARY = "onnxruntime"
HEAD = (
    "payload",
    "threads",
    "ours",
    "efficiency",
    "ONNX Runtime",
    "its efficiency",
    "over ONNX Runtime",
    "of the memory roof",
    "targets: ratio, efficiency, roof",
)


@dataclass(frozen=True)
class Work:
    """One row of the table.

    Attributes:
        payload: Spec of the payload, or the name of a model of the zoo, which is imported.
        ratio: Speed-up over ONNX Runtime on as many threads that it should reach; empty for none.
        efficiency: Time on one thread over N times that on N which it should reach; empty for none.
        trials: Number of trials of the sweep before.
        baseline: Baseline of the sweep; `loops` where the pass pipeline takes minutes a call.
        roof: Share of the rate at which all threads read memory that it should reach; empty for none.
        is_imported: Whether it is a model of the zoo.
        error: Error that is allowed, over the largest value; empty for none.
    """

    payload: str
    ratio: str = ""
    efficiency: str = ""
    trials: int = 20
    baseline: str = "passes"
    roof: str = ""
    is_imported: bool = False
    error: str = ""

    @property
    def key(self) -> str:
        """Name of what is recorded of it."""
        return self.payload + (f" --error {self.error}" if self.error else "")

    def spec(self, folder: Path) -> str:
        """What names the payload on a command line; a model of the zoo is written to a file in a folder."""
        if not self.is_imported:
            return self.payload
        path = folder / f"{self.payload}.onnx"
        subprocess.run([sys.executable, "-m", "payload.zoo", self.payload, str(path)], check=True)
        return str(path)


WORKS = (
    Work("matmul,m=512,n=512,k=512,constant_b=1", "1", "0.92"),
    Work("matmul,m=1024,n=1024,k=1024,constant_b=1", "1", "0.92"),
    Work("matmul,m=128,n=3072,k=768,constant_b=1", "1", "0.92"),
    Work("matmul,m=1024,n=1024,k=1024,constant_b=1", "", "0.90", 40, error="0.01"),
    Work("attention,heads=12,seq=128,d=64,causal=1", "1.5"),
    Work("nano", "1.2", trials=60),
    Work("gpt2", "1.15", "0.90", 30, "loops"),
    Work("gpt2,function=decode,position=127", trials=30, baseline="loops", roof="90 %"),
    Work("resnet18", efficiency="0.85", trials=30, baseline="loops", is_imported=True),
    Work("bert", efficiency="0.85", trials=30, baseline="loops", is_imported=True),
)


def measure(only: Only = "") -> None:
    """Tune every payload from an empty store on all physical cores, then compare it."""
    threads = str(len(physical_cores()))
    for work in WORKS:
        if only in work.key:
            with TemporaryDirectory() as folder:
                spec, bundle = work.spec(Path(folder)), f"{folder}/bundle"
                options = ["--threads", threads, "--baseline", work.baseline]
                options += ["--error", work.error] if work.error else []
                sweep = ["--trials", str(work.trials), "--cold", "--store", f"{folder}/store.journal"]
                run(["autotune", "tune", spec, *options, *sweep, "--bundle", bundle, "--json"])
                race = ["--threads", threads, "--baseline", "none", "--against", LIBRARY, "--json"]
                race += ["--error", work.error] if work.error else []
                output = run(["autotune", "compare", spec, "--bundle", bundle, *race])
            found = json.loads(output)
            del found["notes"], found["payload"]  # they name paths on this machine
            keep("threads", work.key, found)
            typer.echo(row(work, found))


def part(path: Path) -> str:
    """What a recorded machine's cores do together."""
    found = {work: read(path, work.key) for work in WORKS}
    rows = [row(work, data) for work, data in found.items() if data]
    return f"\nIn `results/{path.parent.name}`:\n\n" + table(HEAD, rows)


def row(work: Work, data: dict[str, Any]) -> str:
    """One line of the table."""
    rows = {each["name"]: each for each in data["rows"]}
    mine, theirs = rows["best"], rows.get(LIBRARY, {})
    cells = [f"`{work.key}`", str(data["machine"]["threads"]), duration(mine["seconds"]), efficiency(mine)]
    cells += [duration(theirs.get("seconds")), efficiency(theirs), advantage(rows)]
    cells.append(f"{rows['read']['ratio']:.0%}" if "read" in rows else "-")
    cells.append(", ".join(filter(None, (work.ratio and f"{work.ratio} x", work.efficiency, work.roof))))
    return "| " + " | ".join(cells) + " |"


def efficiency(row: dict[str, Any]) -> str:
    """The time on one thread over N times that on N."""
    return f"{row['efficiency']:.2f}" if row.get("efficiency") is not None else "-"


BLOCK = Block("threads", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
