"""Products with weights in blocks beside f32, in docs/results.md: `measure` times them in turns, `render` writes.

All multiply one vector, or some rows, by a weight of the same logical size, with default configs, on one core; the
compiled programs take turns, and so does, for each, a program that only reads as many bytes as its weight takes. So
does the decode of a whole model of random weights, imported from a GGUF file: package `gguf` writes it, a gigabyte in
all.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import typer
from blocks import Block, keep, read, table

import autotune as at
from autotune.bundles.call import compile_candidate
from autotune.core.evaluator import Effort
from autotune.core.host.machine import this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Array, Payload
from autotune.core.stats import ratio_interval
from autotune.reports.format import duration
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.kernels import read_payload
from autotune.worker.bench.measure import measure_interleaved
from autotune.worker.bench.roofs import bind
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import partition

NAME = "quantised"
EFFORT = Effort(samples=41, seconds=1.5)
FORMATS = ("q8_0", "q4_0", "q4_k", "q6_k")
SIZES = {"1x4096x16384": (1, 16384, 4096), "1x2048x2048": (1, 2048, 2048), "64x1024x1024": (64, 1024, 1024)}
HEAD = ("rows x k x n", "weight", "bytes", "a call", "f32 over it", "of what reading allows")

MODEL, KINDS, LAYERS, VOCAB = "qwen2-0.5b", ("Q8_0", "Q4_0"), 24, 151936  # with the sizes of Qwen2 0.5B
WIDTH, HIDDEN, OF_QUERIES, OF_KEYS = 896, 4864, 896, 128
NUMBERS = {"context_length": 32768, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": HIDDEN}
NUMBERS |= {"attention.head_count": 14, "attention.head_count_kv": 2}
MATRICES = {"attn_q": (OF_QUERIES, WIDTH), "attn_k": (OF_KEYS, WIDTH), "attn_v": (OF_KEYS, WIDTH)}
MATRICES |= {"attn_output": (WIDTH, OF_QUERIES), "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH)}
MATRICES |= {"ffn_down": (WIDTH, HIDDEN)}
POSITIONS, STEPS, POSITION = 512, 41, 128
DECODE_HEAD = ("model", "weights", "bytes", "a token", "tokens a second", "of what reading allows")


def write_model(path: Path, kind: str) -> None:
    """A GGUF model of random blocks, about as large as trained ones."""
    import gguf

    rng, code = np.random.default_rng(0), gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[code]
    writer = gguf.GGUFWriter(path, "qwen2")

    def add(name: str, shape: tuple[int, int]) -> None:
        raw = rng.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
        raw[..., :2] = np.array([0.02 / (1 << (size * 8 // block - 2))], np.float16).view(np.uint8)
        writer.add_tensor(name, raw.reshape(shape[0], -1), raw_dtype=code)

    for key, value in NUMBERS.items():
        writer.add_uint32(f"qwen2.{key}", value)
    writer.add_float32("qwen2.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_token_list([f"t{i}" for i in range(VOCAB)])
    add("token_embd.weight", (VOCAB, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name, shape in MATRICES.items():
            add(f"blk.{layer}.{name}.weight", shape)
        for part, count in (("q", OF_QUERIES), ("k", OF_KEYS), ("v", OF_KEYS)):
            writer.add_tensor(f"blk.{layer}.attn_{part}.bias", np.zeros(count, np.float32))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def measure_decode() -> None:
    """Time a token of the model in each format in turns with reading its weights, checked as candidates are."""
    seconds, sizes, machine = {}, {}, this_machine()
    for kind in KINDS:
        with TemporaryDirectory() as around:
            write_model(Path(around) / "model.gguf", kind)
            import_model(f"{around}/model.gguf,tokens=1,positions={POSITIONS}", Path(around) / "decode")
            payload = at.payload(f"{around}/decode")
            wanted = payload.reference(**payload.make_inputs(0))[-1]  # type: ignore[misc]
            run, arrays = bound_program(payload)
        run(1)
        np.testing.assert_allclose(arrays["logits"], wanted, atol=1e-4 * np.abs(wanted).max())
        arrays["position"][...] = POSITION
        sizes[kind] = sum(a.bytes for a in payload.arguments if a.role == "weight")
        reads = bind(read_payload(machine.lanes, sizes[kind]), machine).run
        samples = measure_interleaved([run, reads], Effort(samples=STEPS, seconds=8.0))
        seconds |= {name: list(each.seconds) for name, each in zip((kind, f"read {kind}"), samples, strict=True)}
    keep(NAME, MODEL, {"seconds": seconds, "bytes": sizes, "machine": asdict(machine)})


def timed(payload: Payload) -> Callable[[int], None]:
    """Calls of a payload's default program, checked against its reference."""
    run, arrays = bound_program(payload)
    run(1)
    (wanted,) = payload.reference(**payload.make_inputs(0))  # type: ignore[misc]
    np.testing.assert_allclose(arrays[payload.outputs[0].name], wanted, atol=1e-4 * np.abs(wanted).max())
    return run


def bound_program(payload: Payload) -> tuple[Callable[[int], None], dict[str, Array]]:
    """Calls of a payload's default program, and the arrays that it reads and writes."""
    machine, inputs = this_machine(), payload.make_inputs(0)
    program = compile_candidate(payload, default_candidate(partition(payload), machine))
    arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
    for name, array in inputs.items():
        arrays[name][...] = array
    panels = [weight.pack(arrays[payload.arguments[weight.source].name]) for weight in program.weights]
    return program.bind([*arrays.values(), *panels]).run, arrays


def measure() -> None:
    """Time every format in turns with f32."""
    for short, (m, n, k) in SIZES.items():
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
    measure_decode()


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
    told = f"\nIn `results/{path.parent.name}`:\n\n{table(HEAD, rows)}\n" if rows else ""
    return told + decode_part(path)


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
