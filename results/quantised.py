"""Products with weights in blocks beside f32, in docs/results.md: `measure` times them in turns, `render` writes.

All multiply one vector, or some rows, by a weight of the same logical size, with default configs, on one core; the
compiled programs take turns, and so does, for each, a program that only reads as many bytes as its weight takes.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import typer
from blocks import keep, read, serve, table

import autotune as at
from autotune.bundles.call import compile_candidate
from autotune.core.evaluator import Effort
from autotune.core.host.machine import this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Payload
from autotune.core.stats import ratio_interval
from autotune.reports.format import duration
from autotune.tuning.default_program import default_candidate
from autotune.worker.bench.kernels import read_payload
from autotune.worker.bench.measure import measure_interleaved
from autotune.worker.bench.roofs import bind
from autotune.worker.loading.reading import partition

NAME = "quantised"
EFFORT = Effort(samples=41, seconds=1.5)
FORMATS = ("q8_0", "q4_0", "q4_k", "q6_k")
SIZES = {"1x4096x16384": (1, 16384, 4096), "1x2048x2048": (1, 2048, 2048), "64x1024x1024": (64, 1024, 1024)}
HEAD = ("rows x k x n", "weight", "bytes", "a call", "f32 over it", "of what reading allows")


def contestant(payload: Payload) -> Callable[[int], None]:
    """Calls of a payload's default program, checked against its reference."""
    machine, inputs = this_machine(), payload.make_inputs(0)
    program = compile_candidate(payload, default_candidate(partition(payload), machine))
    arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
    for name, array in inputs.items():
        arrays[name][...] = array
    panels = [weight.pack(arrays[payload.arguments[weight.source].name]) for weight in program.weights]
    bound = program.bind([*arrays.values(), *panels])
    bound.run(1)
    (wanted,) = payload.reference(**inputs)  # type: ignore[misc]
    np.testing.assert_allclose(arrays[payload.outputs[0].name], wanted, atol=1e-4 * np.abs(wanted).max())
    return bound.run


def measure() -> None:
    """Time every format in turns with f32."""
    for short, (m, n, k) in SIZES.items():
        payloads = {form: at.payload(f"qmatmul,m={m},n={n},k={k},format={form}") for form in FORMATS}
        payloads["f32"] = at.payload(f"matmul,m={m},n={n},k={k},constant_b=1")
        weights = {name: sum(a.bytes for a in p.arguments if a.role == "weight") for name, p in payloads.items()}
        machine = this_machine()
        ways = {name: contestant(payload) for name, payload in payloads.items()}
        ways |= {f"read {name}": bind(read_payload(machine.lanes, size), machine).run for name, size in weights.items()}
        samples = measure_interleaved(list(ways.values()), EFFORT)
        seconds = {name: list(each.seconds) for name, each in zip(ways, samples, strict=True)}
        keep(NAME, short, {"seconds": seconds, "bytes": weights, "machine": asdict(machine)})
        typer.echo(f"{short}: " + ", ".join(f"{name} {duration(median(all_))}" for name, all_ in seconds.items()))


def part(folder: Path) -> str:
    """The table of a machine."""
    rows = []
    for short in SIZES:
        if not (found := read(folder, short)):
            continue
        seconds, plain = found["seconds"], found["seconds"]["f32"]
        for name in ("f32", *FORMATS):
            ratio = ratio_interval(plain, seconds[name])
            share = ratio_interval(seconds[f"read {name}"], seconds[name]).estimate
            gain = "" if name == "f32" else f"{ratio.estimate:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
            size = f"{found['bytes'][name] / 1e6:.3g} MB"
            rows.append(f"| {short} | `{name}` | {size} | {duration(median(seconds[name]))} | {gain} | {share:.0%} |")
    return f"\nIn `results/{folder.parent.name}`:\n\n{table(HEAD, rows)}\n" if rows else ""


if __name__ == "__main__":
    serve(NAME, measure, part)
