"""Quantised ONNX models beside themselves in f32 and beside ONNX Runtime, in docs/results.md.

``measure`` writes every model of `quantised_onnx_models`, imports it and what it was before quantisation, and compiles
both by default configs. What ours computes is held against the whole numbers that the import recorded, bit by bit.
Four programs take turns on one core, ours and ONNX Runtime's, of the quantised file and of the other; they are timed by
the processor's time of the process. What is recorded is not done again. Needs the extras `import` and `compare`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from math import ceil
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from blocks import Block, Only, file_of, keep, read, table
from quantised_llama import bound_program
from quantised_onnx_models import CASES, write_case

from autotune.core.console import duration

NAME = "quantised_onnx"
OURS, PLAIN, THEIRS, THEIRS_PLAIN = "ours", "ours in f32", "onnxruntime", "onnxruntime in f32"
HEAD = (
    "model",
    "quantised",
    "differ",
    "ours",
    "in f32",
    "ONNX Runtime",
    "in f32",
    "f32 over ours",
    "ONNX Runtime over ours",
)
TURNS, LEAST_TURNS, SECONDS = 41, 9, 8.0
LEAST = 2e-3  # seconds of a turn
CLOSE = 1e-5  # of the largest: how far sums of f32 may be from those of float64, where an op is defined in f32
LIMIT = 3600.0  # seconds that a model may take, import and compiling included

Again = Annotated[bool, typer.Option(help="Also what is recorded.")]
Models = Annotated[Path | None, typer.Option(help="Folder that keeps models and what is imported of them.")]


def measure(only: Only = "", again: Again = False, models: Models = None) -> None:
    """Write, import, check and time every model whose name contains a text; each in a process of its own."""
    for name in (name for name in CASES if only in name):
        if again or not read(file_of(NAME), name):
            with TemporaryDirectory() as around:
                folder = (models or Path(around)) / name
                folder.mkdir(parents=True, exist_ok=True)
                found = measure_alone(name, folder)
            keep(NAME, name, {"model": name, **found})
            typer.echo(row(name, found))


def measure_alone(name: str, folder: Path) -> dict[str, Any]:
    """Measure a model; ``failed`` says what went wrong, if anything did."""
    target = folder / "found.json"
    target.unlink(missing_ok=True)
    command = [sys.executable, __file__, "one", name, str(folder), str(target)]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=LIMIT, check=False)
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    return dict(json.loads(target.read_text())) if target.exists() else {"failed": lines[-1][:300]}


def one(name: str, folder: Path, target: Path) -> None:
    """Measure a model in this process; writes what was found."""
    import autotune as at  # in this process alone
    from autotune.core.host.machine import this_machine
    from autotune.worker.loading.importing import import_model
    from payload.comparators.onnxruntime import ONNXRUNTIME

    files = (folder / "plain.onnx", folder / "quantised.onnx")
    if not all(file.exists() for file in files):
        write_case(name, folder)
    payloads = []
    for file in files:
        imported = folder / file.stem
        if not imported.exists():
            import_model(str(file), imported)
        payloads.append(at.payload(str(imported)))
    plain, quantised = payloads
    given = quantised.make_inputs(0)
    run, arrays = bound_program(quantised)
    run(1)
    wanted = quantised.reference(**given)  # type: ignore[misc]  # an imported payload has one
    differ = [int((arrays[a.name] != each).sum()) for a, each in zip(quantised.outputs, wanted, strict=True)]
    size = sum(int(np.size(each)) for each in wanted)
    pairs = [(arrays[a.name].astype(float), each) for a, each in zip(quantised.outputs, wanted, strict=True)]
    off = max(float(np.abs(ours - each).max() / np.abs(each.astype(float)).max()) for ours, each in pairs)
    sessions = [ONNXRUNTIME.prepare(each, each.make_inputs(0)) for each in (quantised, plain)]

    def calls(prepared: Any) -> Any:  # noqa: ANN401 - a library's session
        return lambda count: [prepared.call() for _ in range(count)]

    ways: dict[str, Callable[[int], object]] = {OURS: run, PLAIN: bound_program(plain)[0]}
    ways |= dict(zip((THEIRS, THEIRS_PLAIN), map(calls, sessions), strict=True))
    seconds = in_turns(ways)
    record = {"scheme": CASES[name].scheme, "differ": sum(differ), "of": size, "off": off, "seconds": seconds}
    record |= {"version": ONNXRUNTIME.version(), "machine": asdict(this_machine())}
    target.write_text(json.dumps(record))


def in_turns(ways: dict[str, Callable[[int], object]]) -> dict[str, list[float]]:
    """Processor time of a call, by turns: one that takes longer than a scheduler's slice may be stopped."""

    def once(way: str, count: int) -> float:
        begin = time.process_time()
        ways[way](count)
        return (time.process_time() - begin) / count

    counts = {way: max(1, ceil(LEAST / once(way, 2))) for way in ways}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    until = time.monotonic() + SECONDS
    while len(seconds[OURS]) < LEAST_TURNS or (len(seconds[OURS]) < TURNS and time.monotonic() < until):
        for way, count in counts.items():
            ways[way](1)  # another one was in the caches
            seconds[way].append(once(way, count))
    return seconds


def ratio(found: dict[str, Any], way: str) -> float:
    """How many times as long as ours another way takes, each at its fastest: noise only adds."""
    return float(min(found["seconds"][way]) / min(found["seconds"][OURS]))


def is_real(name: str) -> bool:
    """Tell whether a model is defined in f32: MatMulNBits multiplies real numbers by a weight that it widens."""
    return CASES[name].layout == "blocks"


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    if "failed" in found:
        return f"| `{name}` | {found['failed']} |" + " |" * (len(HEAD) - 2)
    differ = f"{found['differ'] / found['of']:.0%}, by {found['off']:.0e}" if found["differ"] else "0"
    if is_real(name):
        differ = f"f32, by {found['off']:.0e}"
    times = [duration(min(found["seconds"][way])) for way in (OURS, PLAIN, THEIRS, THEIRS_PLAIN)]
    gains = [f"{ratio(found, way):.2f}" for way in (PLAIN, THEIRS)]
    return "| " + " | ".join((f"`{name}`", found["scheme"], differ, *times, *gains)) + " |"


def part(path: Path) -> str:
    """The table of a machine, and what it comes to."""
    found = {name: data for name in CASES if (data := read(path, name))}
    timed = [data for data in found.values() if "failed" not in data]
    if not timed:
        return ""
    means = {way: geometric_mean([ratio(data, way) for data in timed]) for way in (PLAIN, THEIRS)}
    slower = sum(ratio(data, PLAIN) < 1 for data in timed)
    whole = [data for name, data in found.items() if not is_real(name)]
    exact = sum("failed" not in data and not data["differ"] for data in whole)
    close = sum("failed" not in data and data["off"] <= CLOSE for name, data in found.items() if is_real(name))
    head = f"\nIn `results/{path.parent.name}`, one thread, default configs, {timed[0]['version']}:\n\n"
    rows = [row(name, data) for name, data in found.items()]
    summary = f"\nOf {len(whole)} models of whole numbers {exact} are exact, bit by bit; of those in f32 {close} of "
    summary += f"{len(found) - len(whole)} within {CLOSE:g} of the largest. Of all, {slower} are slower than in f32. "
    summary += f"Geometric means: {means[PLAIN]:.2f} times as fast as our f32, {means[THEIRS]:.2f} as ONNX Runtime.\n"
    return head + table(HEAD, rows) + summary


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        BLOCK.serve()
