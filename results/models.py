"""The models of others in docs/results.md: import and measure them (`measure`), and write their table (`render`).

Each model of `payload.zoo` is written as an ONNX file and as a program of torch.export, both with random weights, and
each is imported, verified against its framework in float64 and compared by its default configs, in one run with the
library that its file belongs to. Needs the extras `import`, `compare` and `torch`, and transformers and onnxscript.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import typer
from blocks import Block, Only, keep, read, table

import autotune as at
from autotune.core.console import duration
from autotune.registry import current_name
from payload.zoo import MODELS, OPS, ZOO

NEEDED = ("torch", "transformers", "onnxscript", "torch_mlir", "onnxruntime")
ROUTES = {"onnx": "onnxruntime", "pt2": "torch"}  # suffix of the file, and the library that runs it
HEAD = (
    "model",
    "import",
    "tasks",
    "families",
    "error",
    "ours",
    "ONNX Runtime",
    "over ONNX Runtime",
    "ours, from PyTorch",
    "PyTorch",
    "over PyTorch",
)


def measure(only: Only = "") -> None:
    """Write, import and compare every model whose name contains a text."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        typer.echo(
            f"models must be written by {', '.join(missing)}, which are not installed; left as they are", err=True
        )
        return
    for name in (name for name in ZOO if only in name):
        with TemporaryDirectory() as folder:
            found = {suffix: import_one(name, suffix, Path(folder)) for suffix in ROUTES}
            found = {suffix: compare_one(suffix, Path(folder), facts) for suffix, facts in found.items()}
        keep("models", name, {"model": name, **found})
        typer.echo(row(name, found))


def import_one(name: str, suffix: str, folder: Path) -> dict[str, Any]:
    """Write a model to one kind of file and import it; ``failed`` says what went wrong, if anything did."""
    path, target = folder / f"{name}.{suffix}", folder / suffix
    # in a process of its own: a command that is started counts the memory of who starts it
    subprocess.run([sys.executable, "-m", "payload.zoo", name, str(path)], check=True)
    imported = run_measured(["autotune", "import", str(path), "-o", str(target)])
    facts = {"failed": imported.failed, "import_seconds": imported.seconds, "import_bytes": imported.bytes}
    if imported.failed:
        return facts
    tasks = at.tasks(at.payload(str(target)))
    return {**facts, "families": dict(Counter(task.families[0].name if task.families else "none" for task in tasks))}


def compare_one(suffix: str, folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Compare what was imported from one kind of file with the library that the file belongs to."""
    if facts["failed"]:
        return facts
    command = ["autotune", "compare", str(folder / suffix), "--against", ROUTES[suffix], "--baseline", "none", "--json"]
    compared = run_measured(command)
    if not compared.output.startswith("{"):
        return {**facts, "failed": compared.failed}
    found = json.loads(compared.output)
    del found["notes"], found["payload"]  # they name paths on this machine
    return {**facts, "compared": found}


@dataclass(frozen=True)
class Finished:
    """A command that ran.

    Attributes:
        output: What it printed.
        failed: Last line of what it complained of; empty if it succeeded.
        seconds: Seconds of the processor that it and what it started took.
        bytes: Most memory that one of its processes took.
    """

    output: str
    failed: str
    seconds: float
    bytes: int


def run_measured(command: list[str]) -> Finished:
    """Run a command that may fail."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        running = subprocess.Popen(command, stdout=out, stderr=err, text=True)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        complained = err.read().strip().splitlines() or [f"exit code {running.returncode}"]
        failed = complained[-1] if running.returncode else ""
        return Finished(out.read(), failed, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def part(path: Path) -> str:
    """A recorded machine's models, then its single ops."""
    found = {name: data for name in ZOO if (data := read(path, name))}
    kinds = [[row(name, found[name]) for name in names if name in found] for names in (MODELS, OPS)]
    blocks = [table(HEAD, rows) for rows in kinds if rows]
    return f"\nIn `results/{path.parent.name}`, one thread, default configs.\n\n" + "\n".join(blocks)


def row(name: str, found: dict[str, Any]) -> str:
    """One line of the table."""
    first = found["onnx"]
    families = ", ".join(
        f"{count} {name}" for name, count in sorted((current_name(f), n) for f, n in first.get("families", {}).items())
    )
    cells = [f"`{name}`", imports(found), str(sum(first.get("families", {}).values()) or "-"), families or "-"]
    error = max((ours(found[route]).get("max_error") or 0.0 for route in ROUTES), default=0.0)
    cells.append(f"{error:.0e}" if error else "0")
    for route, library in ROUTES.items():
        rows = rows_of(found[route])
        cells += [duration(ours(found[route]).get("seconds")), duration(rows.get(library, {}).get("seconds"))]
        cells.append(advantage(rows, library))
    return "| " + " | ".join(cells) + " |"


def imports(found: dict[str, Any]) -> str:
    """Seconds of the processor and memory of importing, the more of both files."""
    seconds = max(found[route]["import_seconds"] for route in ROUTES)
    return f"{seconds:.0f} s, {max(found[route]['import_bytes'] for route in ROUTES) / 2**30:.1f} GiB"


def rows_of(route: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows of a comparison by their names."""
    return {r["name"]: r for r in route.get("compared", {}).get("rows", ())}


def ours(route: dict[str, Any]) -> dict[str, Any]:
    """Our row: default configs."""
    return rows_of(route).get("default", {})


def advantage(rows: dict[str, dict[str, Any]], library: str) -> str:
    """How many times as long as ours a library takes."""
    theirs, mine = (rows.get(name, {}).get("seconds") for name in (library, "default"))
    return f"{theirs / mine:.2f} x" if theirs and mine else "-"


BLOCK = Block("models", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
