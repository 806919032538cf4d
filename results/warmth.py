"""What recorded configs are worth: trials to 95 % of the best, cold and warm (`measure`), and the table (`render`).

Each payload is tuned from an empty store with a few seeds, cold and from the bundles below results/. The best is the
best trial of all these sweeps; a model counts every task's trials up to that point, those of all tasks together.
"""

import subprocess
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import typer
from blocks import ROOT, Block, Only, keep, read, table

from autotune.store.store import trials

# Not recorded themselves; near to what is.
PAYLOADS = {"matmul,m=384,n=512,k=512": 40, "gpt,d_model=64,heads=4,layers=2,d_ff=256,vocab=256,seq=48": 120}
SEEDS = 3
SHARE = 0.95


HEAD = ("payload", "first trial cold", "first trial warm", "trials cold", "trials warm")


def measure(only: Only = "") -> None:
    """Tune every payload cold and warm."""
    for payload, count in PAYLOADS.items():
        if only not in payload:
            continue
        kinds = {"cold": ["--cold"], "warm": []}
        frames = {kind: [sweep(payload, count, s, more) for s in range(SEEDS)] for kind, more in kinds.items()}
        found = summarize(frames, count)
        keep("warmth", payload, found)
        typer.echo(row(payload, found))


def sweep(payload: str, count: int, seed: int, options: list[str]) -> pd.DataFrame:
    """The trials of one sweep."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store.journal"
        command = ["autotune", "tune", payload, "--trials", str(count), "--seed", str(seed), *options]
        command += ["--store", str(store), "--bundle", f"{folder}/bundle"]
        subprocess.run(command, check=True, cwd=ROOT.parent, stdout=subprocess.DEVNULL)
        return trials(store)


def summarize(frames: dict[str, list[pd.DataFrame]], count: int) -> dict[str, Any]:
    """Trials to the share of the best, a number a sweep, and the curves they come from."""
    best = pd.concat([f for sweeps in frames.values() for f in sweeps]).groupby("task")["seconds_normalised"].min()
    needed = {kind: [trials_needed(frame, best, count) for frame in sweeps] for kind, sweeps in frames.items()}
    first = {kind: [first_share(frame, best) for frame in sweeps] for kind, sweeps in frames.items()}
    return {"share": SHARE, "trials": count, "needed": needed, "first_share": first}


def trials_needed(frame: pd.DataFrame, best: "pd.Series[float]", count: int) -> int:
    """Trials of all tasks until each is within the share of its best; `count` where one never is."""
    total = 0
    for task, rows in frame.sort_values("number").groupby("task"):
        there = rows["seconds_normalised"] <= best[task] / SHARE
        total += int(there.to_numpy().argmax()) + 1 if there.any() else count
    return min(total, count)


def first_share(frame: pd.DataFrame, best: "pd.Series[float]") -> float:
    """How near to the best the first trial of each task is, a mean over tasks."""
    first = frame[frame["number"] == 0].set_index("task")["seconds_normalised"]
    return float((best / first).mean())


def part(path: Path) -> str:
    """A recorded machine's sweeps."""
    rows = [row(payload, data) for payload in PAYLOADS if (data := read(path, payload))]
    return (
        f"\nIn `results/{path.parent.name}`, mean of {SEEDS} seeds; the first trial of each task, and trials "
        f"until every task is within {SHARE:.0%} of the best of all sweeps:\n\n" + table(HEAD, rows)
    )


def row(payload: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    first, needed = data["first_share"], data["needed"]
    cells = [f"{mean(first[kind]):.0%}" for kind in ("cold", "warm")]
    cells += [f"{mean(needed[kind]):.0f} of {data['trials']}" for kind in ("cold", "warm")]
    return f"| `{payload}` | {' | '.join(cells)} |"


BLOCK = Block("warmth", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
