"""Products with weights in blocks beside f32, in docs/results.md: `measure` times them in turns, `render` writes.

All multiply one vector, or some rows, by a weight of the same logical size, with default configs, on one core; the
compiled programs take turns, and so does, for each, a program that only reads as many bytes as its weight takes. Whole
models of random weights, imported from GGUF files, are beside llama.cpp: `quantised_llama.py`.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from blocks import Block, Only, keep, read, table
from quantised_llama import bound_program, llama_part, measure_llama

import autotune as at
from autotune.core.evaluator import Effort
from autotune.core.host.machine import this_machine
from autotune.core.payload import Payload
from autotune.core.stats import ratio_interval
from autotune.reports.format import duration
from autotune.worker.bench.kernels import read_payload
from autotune.worker.bench.measure import measure_interleaved
from autotune.worker.bench.roofs import bind

NAME = "quantised"
EFFORT = Effort(samples=41, seconds=1.5)
FORMATS = ("q8_0", "q4_0", "q4_k", "q6_k")
SIZES = {"1x4096x16384": (1, 16384, 4096), "1x2048x2048": (1, 2048, 2048), "64x1024x1024": (64, 1024, 1024)}
HEAD = ("rows x k x n", "weight", "bytes", "a call", "f32 over it", "of what reading allows")

MODEL, KINDS, POSITION = "qwen2-0.5b", ("Q8_0", "Q4_0"), 128  # of what was recorded without llama.cpp
Folder = Annotated[Path | None, typer.Option(help="Folder that keeps models, to measure parts one by one.")]
DECODE_HEAD = ("model", "weights", "bytes", "a token", "tokens a second", "of what reading allows")


def timed(payload: Payload) -> Callable[[int], None]:
    """Calls of a payload's default program, checked against its reference."""
    run, arrays = bound_program(payload)
    run(1)
    (wanted,) = payload.reference(**payload.make_inputs(0))  # type: ignore[misc]
    np.testing.assert_allclose(arrays[payload.outputs[0].name], wanted, atol=1e-4 * np.abs(wanted).max())
    return run


def measure(only: Only = "", folder: Folder = None) -> None:
    """Time every format in turns with f32, and a language model beside llama.cpp."""
    measure_products(only)
    with TemporaryDirectory() as around:
        measure_llama(folder or Path(around), only)


def measure_products(only: str) -> None:
    """Time products."""
    for short, (m, n, k) in SIZES.items():
        if only not in short:
            continue
        payloads = {form: at.payload(f"qmatmul,m={m},n={n},k={k},format={form}") for form in FORMATS}
        payloads["f32"] = at.payload(f"matmul,m={m},n={n},k={k},constant_b=1")
        weights = {name: sum(a.bytes for a in p.arguments if a.role == "weight") for name, p in payloads.items()}
        machine = this_machine()
        ways = {name: timed(payload) for name, payload in payloads.items()}
        ways |= {f"read {name}": bind(read_payload(machine.lanes, size), machine).run for name, size in weights.items()}
        samples = measure_interleaved(list(ways.values()), EFFORT)
        seconds = {name: list(each.seconds) for name, each in zip(ways, samples, strict=True)}
        keep(NAME, short, {"seconds": seconds, "bytes": weights, "machine": asdict(machine)})
        typer.echo(f"{short}: " + ", ".join(f"{name} {duration(median(all_))}" for name, all_ in seconds.items()))


def part(path: Path) -> str:
    """The table of a machine."""
    rows = []
    for short in SIZES:
        if not (found := read(path, short)):
            continue
        seconds, plain = found["seconds"], found["seconds"]["f32"]
        for name in ("f32", *FORMATS):
            ratio = ratio_interval(plain, seconds[name])
            share = ratio_interval(seconds[f"read {name}"], seconds[name]).estimate
            gain = "" if name == "f32" else f"{ratio.estimate:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
            size = f"{found['bytes'][name] / 1e6:.3g} MB"
            rows.append(f"| {short} | `{name}` | {size} | {duration(median(seconds[name]))} | {gain} | {share:.0%} |")
    text = f"\nIn `results/{path.parent.name}`:\n\n{table(HEAD, rows)}\n" if rows else ""
    return text + decode_part(path) + llama_part(path)


def decode_part(path: Path) -> str:
    """The table of whole models; empty where none was measured."""
    if not (found := read(path, MODEL)):
        return ""
    rows = []
    for kind in KINDS:
        token = median(found["seconds"][kind])
        share = ratio_interval(found["seconds"][f"read {kind}"], found["seconds"][kind]).estimate
        size = f"{found['bytes'][kind] / 1e6:.3g} MB"
        rows.append(f"| {MODEL} | `{kind}` | {size} | {duration(token)} | {1 / token:.3g} | {share:.0%} |")
    return f"Decode of an imported model of random weights, at position {POSITION}:\n\n{table(DECODE_HEAD, rows)}\n"


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
