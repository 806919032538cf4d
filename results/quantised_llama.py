"""A language model of half a billion parameters beside llama.cpp: tokens a second, and greedy tokens.

Both compute the same GGUF file, on as many threads, in turns with a program that reads as many bytes as a token must:
the file's matrices, and what caches hold at the middle of 128 tokens. A call takes longer than a scheduler's slice: on
one thread, all are timed by the processor's time of this process, on two by the clock.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import typer
from blocks import keep, read, table
from quantised_model import LAYERS, OF_KEYS, PARAMETERS, VOCAB, matrix_bytes, write_model

import autotune as at
from autotune.bundles.call import compile_candidate
from autotune.contrib.quantised.gguf_file import read_gguf
from autotune.contrib.quantised.llama_config import read_config
from autotune.contrib.quantised.llama_reference import LlamaReference
from autotune.contrib.quantised.llama_weights import take_weights
from autotune.contrib.quantised.panel_family import BLOCK_PANELS
from autotune.contrib.quantised.rounded_family import BLOCK_DOTS, BLOCK_WIDENED_TILES
from autotune.core.host.machine import Machine, this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Array, Payload
from autotune.core.plugs.family import Family
from autotune.core.precision import BF16, TILE_BF16
from autotune.core.stats import ratio_interval
from autotune.core.task import Task
from autotune.registry import family_for, load_family
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.kernels import on_threads, read_payload
from autotune.worker.bench.roofs import bind
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import partition

NAME = "quantised"
KINDS = ("Q4_0", "Q8_0", "Q4_K")
POSITIONS, PROMPT, STEPS = 512, (1, 2, 3, 4, 5, 6, 7, 8), 200
PAUSE = 0.25  # seconds after which no thread of a way waits for more work on a core
POSITION = 64  # position of the token that is decoded
FUNCTIONS = {"decode": (1, 31), "prefill": (512, 3)}  # tokens of a call, and calls
PARTS = {"decode": ("decode", 1), "decode, 2 threads": ("decode", 2), "prefill": ("prefill", 1)}
OURS, ROUNDED, THEIRS, READ = "ours", "ours rounded", "llama.cpp", "read"
SPEED_HEAD = ("weights", "a call", "threads", "activations", "ours", "llama.cpp", "its weights", "its time over ours")
SPEED_HEAD += ("of what reading allows", "llama.cpp", "off by", "llama.cpp")
GREEDY_HEAD = ("weights", "ours", "gap there", "logits off by", "llama.cpp", "gap there", "logits off by")


def entry(kind: str, part: str) -> str:
    """Name of what is recorded of a format."""
    return f"llama-0.5b {kind} {part}"


def bound_program(
    payload: Payload, *, rounded: bool = False, threads: int = 1
) -> tuple[Callable[[int], None], dict[str, Array]]:
    """Calls of a payload's default program, and the arrays that it reads and writes; activations rounded."""
    machine, inputs, parts = this_machine(threads), inputs_of(payload), partition(payload)
    program = compile_candidate(payload, default_candidate(parts, machine, rounded_family if rounded else family_for))
    arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
    for name, array in inputs.items():
        arrays[name][...] = array
    panels = [weight.pack(arrays[payload.arguments[weight.source].name]) for weight in program.weights]
    return program.bind([*arrays.values(), *panels]).run, arrays


def inputs_of(payload: Payload) -> dict[str, Array]:
    """Random inputs; what is decoded is early in a text."""
    given = payload.make_inputs(0)
    if "position" in given:
        given["position"][...] = POSITION
    return given


@contextmanager
def held_to(cores: int) -> Iterator[None]:
    """Let this thread, and those that it starts meanwhile, run on so many of the cores."""
    before = os.sched_getaffinity(0)
    if len(before) < cores:
        raise typer.BadParameter(f"{cores} threads need as many cores; this process has {len(before)}")
    os.sched_setaffinity(0, sorted(before)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def rounded_family(task: Task, machine: Machine) -> Family | None:
    """The family that rounds: weights by many rows, and attention, to bf16, few rows to 8 bits; else as ever."""
    rounding = (BLOCK_WIDENED_TILES, BLOCK_PANELS, BLOCK_DOTS, *(load_family(each.name) for each in (TILE_BF16, BF16)))
    able = (each for each in rounding if not each.lacking and each.covers(task))
    return next(able, None) or family_for(task, machine)


def imported(file: Path, function: str) -> Payload:
    """A function of the model, imported where it is not yet."""
    folder = file.with_name(f"{file.stem}-{function}")
    if not folder.exists():
        import_model(f"{file},tokens={FUNCTIONS[function][0]},positions={POSITIONS}", folder)
    return at.payload(str(folder))


def in_turns(ways: dict[str, Callable[[], object]], calls: int, threads: int) -> dict[str, list[float]]:
    """Time of each of some calls, one of each way after the other."""
    now = time.process_time if threads == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(calls + 1):
        for name, way in ways.items():
            time.sleep(PAUSE if threads > 1 else 0)
            begin = now()
            way()
            seconds[name].append(now() - begin)
    return {name: all_[1:] for name, all_ in seconds.items()}  # the first warms up


def measure_speed(file: Path, part: str) -> None:
    """Time a function in turns; what it computes is checked against the oracle, llama.cpp's within its rounding."""
    from autotune.contrib.quantised.llama_cpp import LLAMA_CPP

    (function, threads), kind = PARTS[part], file.stem
    payload, machine, (tokens, calls) = imported(file, function), this_machine(threads), FUNCTIONS[function]
    size = matrix_bytes(kind) + 2 * LAYERS * OF_KEYS * 4 * (POSITION + 1 if function == "decode" else 0)
    given = inputs_of(payload)
    wanted = exact_logits(file, function, given)
    run, arrays = bound_program(payload, threads=threads)
    run_rounded, of_rounded = bound_program(payload, rounded=True, threads=threads)
    with held_to(threads):
        both = [way.comparator.prepare(payload, given) for way in LLAMA_CPP.variants()]
    theirs = min(both, key=lambda way: min(in_turns({THEIRS: way.call}, 3, threads)[THEIRS]))
    run(1)
    run_rounded(1)
    (found,) = theirs.outputs(theirs.call())
    results = {OURS: arrays["logits"], ROUNDED: of_rounded["logits"], THEIRS: found}
    off = {name: each - wanted for name, each in results.items()}
    errors = {name: float(np.abs(each).max() / np.abs(wanted).max()) for name, each in off.items()}
    reads = bind(on_threads(read_payload(machine.lanes, size // threads), threads), machine).run
    ways = {OURS: lambda: run(1), ROUNDED: lambda: run_rounded(1), THEIRS: theirs.call, READ: lambda: reads(1)}
    seconds = in_turns(ways, calls, threads)
    record = {"seconds": seconds, "errors": errors, "bytes": size, "tokens": tokens, "version": LLAMA_CPP.version()}
    to = "8 bits" if tokens == 1 or BLOCK_WIDENED_TILES.lacking else "bf16"
    record |= {"how": theirs.how, "rounded_to": to, "threads": threads}
    keep(NAME, entry(kind, part), {**record, "machine": asdict(machine)})
    typer.echo(f"{kind} {part}: " + ", ".join(f"{n} {1e3 * min(s):.1f} ms" for n, s in seconds.items()))
    typer.echo(f"{kind} {part}: off by {errors}")


def reference_of(file: Path, tokens: int) -> LlamaReference:
    """The model in float64, of a function of so many tokens."""
    opened = read_gguf(file)
    config = read_config(opened, {"tokens": tokens, "positions": POSITIONS})
    return LlamaReference(config, take_weights(opened, config))


def exact_logits(file: Path, function: str, given: dict[str, Array]) -> Array:
    """Logits of a call, in float64."""
    position = given["position" if function == "decode" else "length"]
    reference = reference_of(file, FUNCTIONS[function][0])
    return reference.compute(given["tokens"], int(position[0]), given["keys"], given["values"])[-1]


def measure_greedy(file: Path) -> None:
    """Generate greedily; hold our tokens, and llama.cpp's behind the same text, against the reference."""
    from autotune.contrib.quantised.agreement import agree
    from autotune.contrib.quantised.llama_cpp import LlamaModel

    run, arrays = bound_program(imported(file, "decode"))
    theirs = LlamaModel(str(file), POSITIONS)
    text, logits = list(PROMPT), np.empty((2, STEPS, VOCAB), np.float32)
    for position in range(len(PROMPT) + STEPS - 1):
        arrays["tokens"][0], arrays["position"][0] = text[position], position
        run(1)
        of_them, step = theirs.read([text[position]], position), position + 1 - len(PROMPT)
        if step >= 0:
            logits[:, step] = arrays["logits"][0], of_them
            text.append(int(arrays["logits"][0].argmax()))
    wanted = reference_of(file, POSITIONS).read(np.array(text[:-1]))[len(PROMPT) - 1 :]
    found = {name: asdict(agree(each, wanted)) for name, each in zip((OURS, THEIRS), logits, strict=True)}
    keep(NAME, entry(file.stem, "greedy"), {**found, "different": len(set(text)), "machine": asdict(this_machine())})
    typer.echo(f"{file.stem} greedy: {found}")


def measure_llama(folder: Path, only: str = "") -> None:
    """Record all of it, of the formats and parts whose names contain a text; the folder keeps files of models."""
    for kind in KINDS:
        parts = [part for part in (*PARTS, "greedy") if only in entry(kind, part)]
        if not parts:
            continue
        file = folder / f"{kind}.gguf"
        if not file.exists():
            write_model(file, kind)
        for part in parts:
            if part == "greedy":
                measure_greedy(file)
            else:
                measure_speed(file, part)


def llama_part(path: Path) -> str:
    """The tables of a machine; empty where nothing was recorded."""
    speeds, tokens, version = [], [], ""
    for kind in KINDS:
        for part in PARTS:
            if found := read(path, entry(kind, part)):
                speeds += [speed_row(kind, way, found) for way in (OURS, ROUNDED) if way in found["seconds"]]
                version = found["version"]
        if found := read(path, entry(kind, "greedy")):
            cells = (cell for name in (OURS, THEIRS) for cell in greedy_cells(found[name]))
            tokens.append(f"| `{kind}` | {' | '.join(cells)} |")
    text = ""
    if speeds:
        text = (
            f"\nIn `results/{path.parent.name}`, a Llama of {PARAMETERS / 1e6:.0f} M parameters by default configs, in "
            f"tokens a second; {version}:\n\n{table(SPEED_HEAD, speeds)}"
        )
    return text + (f"\n{STEPS} greedy tokens:\n\n{table(GREEDY_HEAD, tokens)}" if tokens else "")


def speed_row(kind: str, way: str, found: dict[str, Any]) -> str:
    """A function of a format, computed in one way of ours."""
    seconds, count, errors = found["seconds"], found["tokens"], found["errors"]
    ours, theirs, reads = (seconds[name] for name in (way, THEIRS, READ))
    ratio = ratio_interval(theirs, ours)
    shares = [f"{ratio_interval(reads, each).estimate:.0%}" if count == 1 else "" for each in (ours, theirs)]
    speeds = [f"{count / median(each):.3g}" for each in (ours, theirs)]
    gain = f"{ratio.estimate:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
    how = str(found["how"]).removeprefix("weights ").partition(",")[0]
    call = "a token" if count == 1 else f"{count} tokens"
    off = [f"{errors[name]:.0e}" for name in (way, THEIRS)]
    activations = "f32" if way == OURS else found["rounded_to"]
    threads = str(found.get("threads", 1))
    return f"| {' | '.join((f'`{kind}`', call, threads, activations, *speeds, how, gain, *shares, *off))} |"


def greedy_cells(found: dict[str, float]) -> tuple[str, str, str]:
    """Equal tokens, and the first other one's gap and error, as shares of the largest logit."""
    gap = f"{found['gap'] / found['largest']:.1g}" if found["equal"] < found["steps"] else ""
    return f"{found['equal']:.0f} equal", gap, f"{found['error'] / found['largest']:.1g}"
