"""A simulated mesh in docs/results.md: models on grids of 16 to 745,500 cores, beside what is published of one.

`measure` searches placements by the cost function `mesh`; no program is run, and no weight is made. What does not fit
is kept as the sentence that says so.
"""

import time
from pathlib import Path
from typing import Any

import typer
from blocks import Block, Only, keep, read, table

from autotune.contrib.costs.cost_function import CostFunction, open_cost
from autotune.contrib.costs.mesh.cost import amount
from autotune.contrib.costs.tune import tune_by_cost
from autotune.core.console import duration
from autotune.core.errors import MachineError
from autotune.tuning.options import TuneOptions
from autotune.worker.loading.reading import open_payload

FOLDER = Path("results/payloads")
PAYLOADS = {
    "gpt2": "GPT-2, 128 tokens",
    "gpt2,function=decode": "GPT-2, a token",
    str(FOLDER / "llama2-7b.mlir"): "Llama 2 7B, a token",
}
GRIDS = (
    "4x4",
    "4x4,memory=2G",
    "16x16,memory=64M",
    "32x32",
    "64x64",
    "128x128",
    "256x256",
    "wse2,rows=128,columns=128",
    "wse2",
    "wse2,batch=64",
)
TRIALS, SEED = 800, 0
# Tokens a second of a request. Source: abstract of arXiv:2502.04563v2 (He et al., "WaferLLM"), 16-bit data, WSE-2.
PUBLISHED = {str(FOLDER / "llama3-8b.mlir"): ("wse2", "Llama 3 8B, a token", 2700.0)}
HEAD = ("model", "grid", "predicted", "default", "regions", "fullest core", "where the time goes", "search")


def measure(only: Only = "") -> None:
    """Search the placement of every model on every grid; those whose names contain `only`."""
    for spec in PAYLOADS:
        for grid in GRIDS:
            if only in f"{spec} {grid}":
                keep("mesh", name_of(spec, grid), examine(spec, grid))
    for spec, (grid, _, _) in PUBLISHED.items():
        if only in spec:
            keep("mesh", name_of(spec, grid), examine(spec, grid))


def name_of(spec: str, grid: str) -> str:
    """The name of the results of a model on a grid."""
    return f"{Path(spec).stem}_on_{grid}"


def examine(spec: str, grid: str) -> dict[str, Any]:
    """What a search found, or why the model does not fit."""
    cost = open_cost(f"mesh:{grid}")
    assert isinstance(cost, CostFunction)
    begin = time.perf_counter()
    try:
        found = tune_by_cost(open_payload(spec), cost, TuneOptions(trials=TRIALS, seed=SEED))
    except MachineError as error:
        typer.echo(str(error))
        return {"refused": str(error)}
    typer.echo(f"{spec} on {grid}: {duration(found.seconds)}")
    return found.to_json() | {"search_seconds": time.perf_counter() - begin}


def part(path: Path) -> str:
    """The table, and the prediction beside what is published."""
    rows = []
    for spec, name in PAYLOADS.items():
        for grid in GRIDS:
            if data := read(path, name_of(spec, grid)):
                rows.append(row(name, grid, data))
    text = "\n" + table(HEAD, rows) if rows else ""
    for spec, (grid, name, rate) in PUBLISHED.items():
        if data := read(path, name_of(spec, grid)):
            mine = 1 / data["best"]["seconds"]
            text += (
                f"\n{name}, on `{grid}`: predicted {duration(data['best']['seconds'])}, {mine:.0f} tokens a second; "
                f"published {rate:.0f}, {mine / rate:.2f} x predicted.\n"
            )
    return text


def row(name: str, grid: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    if "refused" in data:
        needs = data["refused"].partition("it needs ")[2].partition("; give")[0]
        return f"| {name} | `{grid}` | does not fit: {needs} | | | | | |"
    best = data["best"]
    each = best["seconds"] / best["batch"]
    height, width = best["region"]
    shares = sorted(best["shares"].items(), key=lambda pair: -pair[1])[:3]
    cells = [name, f"`{grid}`", duration(each) + (" each" if best["batch"] > 1 else "")]
    cells += [duration(data["default_seconds"] / best["batch"]), f"{best['stages']} of {height} x {width}"]
    cells += [amount(best["memory"]), ", ".join(f"{share:.0%} {kind}" for kind, share in shares)]
    cells += [f"{data['configs']} configs, {data['search_seconds']:.0f} s"]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block("mesh", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
