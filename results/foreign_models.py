"""Models of timm and transformers with random weights: import them, and say which are right and which are refused.

``measure`` writes every model of `foreign_zoo` as an ONNX file and as a program of torch.export, imports and compiles
it by the default configs, calls it from Python and compares with what PyTorch computes in float64; what was recorded
is not done again. Those in the sizes that people have are also timed: called from Python beside ONNX Runtime, one
thread, in turns. Needs the extra `foreign-models`, and timm (without its torchvision).
"""

import gc
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from blocks import Block, Only, file_of, keep, read, slug, table
from foreign_zoo import FULL, SEEDS, ZOO

from autotune.core.console import duration

ROUTES = ("onnx", "pt2")
NEEDED = ("torch", "timm", "transformers", "onnxscript", "torch_mlir", "onnxruntime")
TOLERANCE = 1e-4  # of the largest number of a result; float32 is off by 1e-6 in most models
SECONDS = 1800.0  # that writing a model, or all that follows, may take
ROUNDS, ROUND_SECONDS = 20, 0.25  # of timing: turns, and how long one is at least
HERE = Path(__file__).resolve().parent
NAME = "foreign_models"
HEAD = ("model", "file", "import and compile", "error", "that of PyTorch in float32", "outcome")
TIMED = ("model", "ours, from Python", "ONNX Runtime, from Python", "over ONNX Runtime")

Route = Annotated[str, typer.Option(help="Only this kind of file.")]
Again = Annotated[bool, typer.Option(help="Also what is recorded.")]
Files = Annotated[Path, typer.Option(help="Folder that the models' files are kept in.")]


def measure(
    only: Only = "", route: Route = "", again: Again = False, files: Files = HERE.parent / "build" / NAME
) -> None:
    """Write, import and check every model whose name contains a text."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        typer.echo(
            f"models must be written by {', '.join(missing)}, which are not installed; left as they are", err=True
        )
        return
    files.mkdir(parents=True, exist_ok=True)
    for name in (name for name in ZOO if only in name):
        for suffix in (each for each in ROUTES if route in each):
            found = read(file_of(NAME), name)
            if again or suffix not in found.get("files", {}):
                facts = check_one(name, files / f"{slug(name)}.{suffix}")
                found = {"model": name, "files": {**found.get("files", {}), suffix: facts}}
                keep(NAME, name, found)
                typer.echo("\n".join(rows_of(found)))


def check_one(name: str, path: Path) -> dict[str, Any]:
    """Write a model to a file, unless it is there, and check it: each in a process of its own."""
    if not path.with_name(f"{path.name}.npz").exists() or not path.exists():
        failed = run_alone("foreign_zoo.py", [name, str(path)])
        if failed:
            path.unlink(missing_ok=True)
            return {"outcome": "not exported", "why": failed}
    with TemporaryDirectory() as folder:
        target = Path(folder) / "found.json"
        arguments = ["one", str(path), str(target), *(["--timed"] if name in FULL and path.suffix == ".onnx" else [])]
        failed = run_alone("foreign_models.py", arguments, XDG_CACHE_HOME=folder)
        return dict(json.loads(target.read_text())) if not failed else {"outcome": "failed", "why": failed}


def run_alone(script: str, arguments: list[str], **environment: str) -> str:
    """Run a script of this folder; gives the last line of what it complained of, where it failed."""
    command = [sys.executable, str(HERE / script), *arguments]
    surroundings = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1", **environment}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it took more than {SECONDS:g} s"
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    named = [line for line in lines if "Error" in line] or lines
    return named[-1][:400] if done.returncode else ""


def one(path: Path, target: Path, *, timed: bool = False) -> None:
    """Import, compile, call and time the model of one file; writes what was found."""
    import autotune as at  # in this process alone

    recorded, begin = np.load(path.with_name(f"{path.name}.npz")), time.perf_counter()
    try:
        function = at.compile(str(path))
    except at.AutotuneError as error:
        why = str(error).replace(str(path), path.name)
        target.write_text(json.dumps({"outcome": "refused", "why": why}))
        return
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin}
    errors, single = list[float](), list[float]()
    for seed in SEEDS:
        results = as_list(function(*taken(recorded, "input", seed)))
        exact = taken(recorded, "result", seed)
        errors += [error_of(ours, right) for ours, right in zip(results, exact, strict=True)]
        single += [error_of(x, right) for x, right in zip(taken(recorded, "single", seed), exact, strict=True)]
    right = all(error <= TOLERANCE for error in errors)
    found |= {"outcome": "right" if right else "wrong", "error": max(errors), "single": max(single)}
    if timed and right:
        found["samples"] = in_turns(function, path, taken(recorded, "input", 0))
    target.write_text(json.dumps(found))


def taken(recorded: Any, kind: str, seed: int) -> list[Any]:  # noqa: ANN401 - NumPy's file
    """Recorded arrays of a seed, in order."""
    return [recorded[name] for name in recorded.files if name.startswith(f"{kind}/{seed}/")]


def as_list(found: Any) -> list[Any]:  # noqa: ANN401 - an array or several by name
    """Results in order."""
    return list(found.values()) if isinstance(found, dict) else [found]


def error_of(found: Any, exact: Any) -> float:  # noqa: ANN401 - arrays
    """Largest error beside the largest number; infinite where the shapes differ, or a number is none."""
    if found.shape != exact.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - exact).max() / max(np.abs(exact).max(), 1e-30))


def in_turns(function: Any, path: Path, inputs: list[Any]) -> dict[str, list[float]]:  # noqa: ANN401
    """Seconds of a call of ours and of ONNX Runtime's, a mean of each turn; one thread each."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = dict(zip((each.name for each in session.get_inputs()), inputs, strict=True))
    calls = {"ours": lambda: function(*inputs), "onnxruntime": lambda: session.run(None, feed)}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for turn in range(ROUNDS + 1):
        for name, call in calls.items():
            count, begin = 0, time.perf_counter()
            while not count or time.perf_counter() - begin < ROUND_SECONDS:
                call()
                count += 1
            if turn:  # the first is to warm up
                samples[name].append((time.perf_counter() - begin) / count)
    return samples


def part(path: Path) -> str:
    """A recorded machine's models: how many are right, each of them, and times."""
    found = {name: data for name in ZOO if (data := read(path, name))}
    outcomes = [facts["outcome"] for data in found.values() for facts in data["files"].values()]
    counts = ", ".join(f"{outcomes.count(each)} {each}" for each in dict.fromkeys(sorted(outcomes)))
    times = [timed_row(name, found[name]) for name in FULL if samples_of(found.get(name, {}))]
    rows = [line for data in found.values() for line in rows_of(data)]
    head = f"\nIn `results/{path.parent.name}`, {len(found)} models, a row a file: {counts}.\n\n"
    timed = f"\nOne thread, default configs, called from Python in turns:\n\n{table(TIMED, times)}" if times else ""
    return head + table(HEAD, rows) + timed


def rows_of(found: dict[str, Any]) -> list[str]:
    """Lines of a model, one a file."""
    lines = []
    for suffix, facts in found["files"].items():
        numbers = [f"{facts['error']:.0e}", f"{facts['single']:.0e}"] if "error" in facts else ["-", "-"]
        taken_seconds = f"{facts['seconds']:.0f} s" if "seconds" in facts else "-"
        why = f": {facts['why']}".replace("|", "\\|") if "why" in facts else ""
        cells = [f"`{found['model']}`", f".{suffix}", taken_seconds, *numbers, facts["outcome"] + why]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def samples_of(found: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of the turns of a model that was timed."""
    return dict(found.get("files", {}).get("onnx", {}).get("samples", {}))


def timed_row(name: str, found: dict[str, Any]) -> str:
    """A line of times: medians of the turns, and the median of their ratios."""
    samples = samples_of(found)
    ours, theirs = (np.array(samples[each]) for each in ("ours", "onnxruntime"))
    ratio = f"{np.median(theirs / ours):.2f} x"
    cells = [f"`{name}`", duration(float(np.median(ours))), duration(float(np.median(theirs))), ratio]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(Path(sys.argv[2]), Path(sys.argv[3]), timed="--timed" in sys.argv)
    else:
        BLOCK.serve()
