"""Models within an error budget, in docs/results.md: tune and compare them (`measure`), write the table.

A model of `foreign_zoo` with random weights becomes an ONNX file, unless it is there (needs the extra `foreign-models`,
and timm), and is imported, tuned within the budget from an empty store, and compared with ONNX Runtime in turns.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from blocks import ROOT, Block, Only, keep, read, run, slug, table
from foreign_models import run_alone

from autotune.core.console import duration
from autotune.registry import rounding_names
from autotune.store.bundle import read_bundle

NAME = "rounded_nets"
NETS = (
    "resnet-18",
    "resnet-50",
    "densenet-121",
    "mobilenetv2",
    "mobilenetv3-large",
    "efficientnet-b0",
    "regnety-008",
    "convnext-tiny",
    "distilbert-base",
    "deit-small",
    "swin-tiny",
)
ERROR, TRIALS = 1e-3, 100
FOLDER = ROOT.parent / "build" / NAME
HEAD = (
    "model",
    "f32, by default",
    f"within {ERROR:g}",
    "ONNX Runtime",
    "over ONNX Runtime",
    "in f32",
    "spent",
    "tasks that round",
)


def measure(only: Only = "") -> None:
    """Tune every net whose name contains a text, and compare it."""
    for name in (name for name in NETS if only in name):
        file = written(name)
        if file is None:
            typer.echo(f"{name} must be written by torch and timm, which are not installed; left as it is", err=True)
            continue
        found = compared(file, FOLDER / name)
        keep(NAME, name, found)
        typer.echo(row_of(name, found))


def written(name: str) -> Path | None:
    """The ONNX file of a net; `None` where there is none and nothing can write it."""
    file = FOLDER / f"{name}.onnx"
    if file.exists():
        return file
    if any(find_spec(package) is None for package in ("torch", "timm", "onnxscript")):
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = run_alone("foreign_zoo.py", [name, str(file)])
    if failed:
        raise SystemExit(f"{name} must be exported, but {failed}")
    return file


def compared(file: Path, model: Path) -> dict[str, Any]:
    """What is recorded of a net: seconds and errors of each row, what was spent, and how each task is computed."""
    if not model.exists():
        run(["autotune", "import", str(file), "-o", str(model)])
    work = FOLDER / f"{slug(file.stem)}.work"
    shutil.rmtree(work, ignore_errors=True)
    budget = ["--error", f"{ERROR:g}"]
    paths = ["--store", str(work / "store.journal"), "--bundle", str(work / "bundle")]
    tuned = json.loads(
        run(["autotune", "tune", str(model), *budget, "--trials", str(TRIALS), "--cold", "--json", *paths])
    )
    rivals = ["--against", "onnxruntime", "--baseline", "none", "--json"]
    beside = run(["autotune", "compare", str(model), "--bundle", str(work / "bundle"), *budget, *rivals])
    rows = json.loads(beside)["rows"]
    schedules = [task.schedule for task in read_bundle(work / "bundle").manifest.tasks.values()]
    shutil.rmtree(work)
    kept = {row["name"]: {key: row[key] for key in ("outcome", "seconds", "max_error", "version")} for row in rows}
    return {
        "rows": kept,
        "budget": tuned.get("budget"),
        "schedules": {each: schedules.count(each) for each in schedules},
    }


def part(path: Path) -> str:
    """A recorded machine's nets."""
    rows = [row_of(name, data) for name in NETS if (data := read(path, name))]
    summary = f"\nIn `results/{path.parent.name}`, one thread, {TRIALS} trials:\n"
    return f"{summary}\n{table(HEAD, rows)}" if rows else ""


def row_of(name: str, data: dict[str, Any]) -> str:
    """A net's line."""
    seconds = {row: data["rows"][row]["seconds"] for row in ("default", "best", "onnxruntime")}
    spent = (data["budget"] or {"spent": 0.0})["spent"]
    rounding = {each: count for each, count in sorted(data["schedules"].items()) if each in rounding_names()}
    cells = [
        f"`{name}`",
        *(duration(each) for each in seconds.values()),
        f"{seconds['onnxruntime'] / seconds['best']:.2f} x",
        f"{seconds['onnxruntime'] / seconds['default']:.2f} x",
        f"{spent:.1e}",
        ", ".join(f"{count} in {each}" for each, count in rounding.items()) or "none",
    ]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
