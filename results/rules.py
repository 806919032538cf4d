"""What rewrite rules do, in docs/results.md: time payloads with and without them (`measure`), then `render`.

Both programs of a row are of default schedules, verified against the text that no rule touched, and run in turn. Each
function is what somebody may write who does not look for the fastest way to say it. Models of `payload.zoo` need the
extra `import`, torch, transformers and onnxscript.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import typer
from blocks import Block, Only, file_of, keep, read, table

import autotune.tensor as T  # noqa: N812 - as everybody writes it
from autotune.contrib.explain.ablation import Variant, run_variants
from autotune.contrib.rules.files import rewriting_of, without_rules
from autotune.core.console import duration
from autotune.core.host.machine import this_machine
from autotune.core.payload import Payload
from autotune.core.stats import ratio_interval
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.reading import open_payload, partition

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((512, 512), dtype=np.float32) for _ in range(2))
WEIGHT = RNG.standard_normal((512, 512), dtype=np.float32) / 32
FUNCTIONS: dict[str, Callable[[T.Tensor, T.Tensor], T.Tensor]] = {
    "`exp(x + 0)`": lambda x, y: T.exp(x + 0.0),
    "`exp(x @ eye(512))`": lambda x, y: T.exp(x @ T.eye(512)),
    "`softmax(x + 3)`": lambda x, y: T.softmax(x + 3.0),
    "`x @ w + y @ w`": lambda x, y: x @ WEIGHT + y @ WEIGHT,
    "`x * y + x * tanh(y)`": lambda x, y: x * y + x * T.tanh(y),
}
ZOO = {"BERT-base, from PyTorch": "bert.pt2", "ResNet-18, ONNX": "resnet18.onnx"}
NEEDED = ("torch", "transformers", "onnxscript", "torch_mlir")
PLACE = "payloads"


def measure(only: Only = "") -> None:
    """Time every payload with the rules and without them."""
    found = read(file_of("rules"), PLACE)
    for name, function in FUNCTIONS.items():
        if only in name:
            found[name] = measure_one(T.payload(function, X, Y))
            typer.echo(row(name, found[name]))
    missing = [package for package in NEEDED if find_spec(package) is None]
    for name, file in ZOO.items():
        if only not in name:
            continue
        if missing:
            typer.echo(f"{name} must be written by {', '.join(missing)}, not installed; left as it is", err=True)
            continue
        with TemporaryDirectory() as folder:
            path = Path(folder) / file
            subprocess.run([sys.executable, "-m", "payload.zoo", path.stem, str(path)], check=True)
            found[name] = measure_one(open_payload(str(path)))
        typer.echo(row(name, found[name]))
    keep("rules", PLACE, found)


def measure_one(payload: Payload) -> dict[str, Any]:
    """How often each rule fires on a payload, and samples of its program with and without all that fire."""
    fired, machine = rewriting_of(payload).counts, this_machine()
    parts = {"with": partition(payload), "without": partition(without_rules(payload, tuple(fired)))}
    variants = [Variant(name, default_candidate(each, machine), ()) for name, each in parts.items()]
    found = {
        name: {
            "tasks": len(parts[name].tasks),
            "seconds": list(one.samples.seconds) if one.samples else None,
            "max_error": one.max_error,
            "outcome": one.outcome if not one.diagnostic else f"{one.outcome}: {one.diagnostic}",
        }
        for name, one in zip(parts, run_variants(payload, variants, machine), strict=True)
    }
    return {"fired": fired, "programs": found, "machine": asdict(machine)}


def part(path: Path) -> str:
    """A machine's table."""
    found = read(path, PLACE)
    heads = ("payload", "rules that fire, how often", "tasks without", "with", "without", "with", "times as fast")
    return f"\nIn `results/{path.parent.name}`, one thread:\n\n" + table(
        heads, [row(name, found[name]) for name in (*FUNCTIONS, *ZOO) if name in found]
    )


def row(name: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    fired = ", ".join(f"{rule} {count}" for rule, count in data["fired"].items()) or "none"
    plain, ruled = data["programs"]["without"], data["programs"]["with"]
    cells = [name, fired, str(plain["tasks"]), str(ruled["tasks"])]
    for each in (plain, ruled):
        seconds = each["seconds"]
        cells.append(duration(sorted(seconds)[len(seconds) // 2]) if seconds else each["outcome"])
    if plain["seconds"] and ruled["seconds"]:
        gain = ratio_interval(plain["seconds"], ruled["seconds"])
        cells.append(f"{gain.estimate:.3g} x [{gain.low:.3g}, {gain.high:.3g}]")
    else:
        cells.append("-")
    return f"| {' | '.join(cells)} |"


BLOCK = Block("rules", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
