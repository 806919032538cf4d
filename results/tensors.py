"""What a call of a function on tensors costs beyond its code, in docs/results.md: `measure`, then `render`.

The code alone is the same program, called in an isolated process as every candidate is; a call is from NumPy to NumPy.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from timeit import repeat
from typing import Any

import numpy as np
import typer
from blocks import Block, keep, read, run, table

import autotune.tensor as T  # noqa: N812 - as everybody writes it
from autotune.contrib.explain.ablation import Variant, run_variants
from autotune.core.console import duration
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.reading import partition

CALLS, REPEATS = 1000, 21
HERE = str(Path(__file__).parent)
RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((16, 16), dtype=np.float32) for _ in range(2))
WEIGHT = RNG.standard_normal((64, 64), dtype=np.float32)


def add(x: T.Tensor, y: T.Tensor) -> T.Tensor:
    """A sum of two small tensors."""
    return x + y


def layer(x: T.Tensor) -> T.Tensor:
    """A normalised product with a weight."""
    return T.gelu(T.layer_norm(x) @ WEIGHT)


FUNCTIONS: dict[str, tuple[Callable[..., T.Tensor], tuple[np.ndarray[Any, Any], ...]]] = {
    "`x + y`, 16x16": (add, (A, B)),
    "`gelu(layer_norm(x) @ w)`, 8x64": (layer, (RNG.standard_normal((8, 64), dtype=np.float32),)),
}


def first_call(name: str) -> float:
    """Seconds of the first call of a function in this process."""
    function, arrays = FUNCTIONS[name]
    (seconds,) = repeat(lambda: T.compile(function)(*arrays), number=1, repeat=1)
    return seconds


def call_seconds(name: str) -> list[float]:
    """Seconds of a call of a function that is compiled."""
    function, arrays = FUNCTIONS[name]
    compiled = T.compile(function)
    compiled(*arrays)
    return [each / CALLS for each in repeat(lambda: compiled(*arrays), number=CALLS, repeat=REPEATS)]


def measure() -> None:
    """Time calls of every function, and its code alone."""
    machine, found = this_machine(), []
    for name, (function, arrays) in FUNCTIONS.items():
        payload = T.payload(function, *arrays)
        (code,) = run_variants(payload, [Variant(name, default_candidate(partition(payload), machine), ())], machine)
        record = {"name": name, "call_seconds": call_seconds(name), "code_seconds": list(code.samples.seconds)}
        again = f"import tensors; print(tensors.first_call({name!r}))"  # by now the program is on disk
        seconds = float(run([sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r}); {again}"]))
        found.append({**record, "max_error": code.max_error, "second_process_seconds": seconds})
    keep("tensors", "calls", {"machine": asdict(machine), "functions": found})
    typer.echo("\n".join(map(row, found)))


def part(path: Path) -> str:
    """A machine's table."""
    heads = ("function", "a call", "its code alone", "beyond", "first call of another process")
    rows = [row(each) for each in read(path, "calls").get("functions", [])]
    return f"\nIn `results/{path.parent.name}`, one thread, medians:\n\n" + table(heads, rows)


def row(data: dict[str, Any]) -> str:
    """One line of the table."""
    call, code = median(data["call_seconds"]), median(data["code_seconds"])
    cells = (data["name"], *(duration(each) for each in (call, code, call - code, data["second_process_seconds"])))
    return f"| {' | '.join(cells)} |"


BLOCK = Block("tensors", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
