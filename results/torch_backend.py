"""`torch.compile(model, backend="autotune")` beside Inductor and eager, in docs/results.md: `measure`, then `render`.

Models of timm and transformers with random weights (`foreign_zoo`), none of them all zeros; on one thread, with default
schedules, without a search. Each runs in processes of its own: the first compiles and keeps the programs, the second
starts from them, checks results against float64 and lets the three ways take turns, the third has PyTorch trace the
model and run it itself. Needs the extras `foreign-models` and `torch`.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Annotated, Any

import typer
from blocks import Block, Only, file_of, keep, read, table

MODELS = {
    "FULL": ("convnext-tiny", "regnety-008", "swin-tiny", "t5-small encoder", "clip text", "pythia-70m"),
    "SMALL": (
        "convnext",
        "regnetx",
        "densenet",
        "efficientnet",
        "mobilenetv3",
        "vit",
        "deit",
        "mixer",
        "resmlp",
        "seresnet",
        "repvgg",
        "bert",
        "gpt2",
        "llama",
    ),
}
BF16 = " in bf16"  # what a name ends in, of a model whose weights and inputs are rounded to it
NARROW = ("t5-small encoder", "clip text", "pythia-70m", "bert", "llama")  # whose products are of matrices
NARROW += ("resnet-50", "mobilenetv3-large", "regnety-008", "convnext-tiny")  # and those of convolutions
MODELS["BF16"] = tuple(f"{name}{BF16}" for name in NARROW)
TINY = "one layer of 4x4"  # whose call is nothing but overhead
ROUNDS, ROUND_SECONDS = 15, 0.03
TOLERANCE = 1e-3  # of the largest value; or four times the error of PyTorch's own float32
AS_PYTORCH = 4.0
OTHERS = ("inductor", "eager")


def make(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model in eval mode, and its inputs; the same each time."""
    import foreign_zoo
    import torch

    torch.manual_seed(0)
    if name == TINY:
        return torch.nn.Linear(4, 4).eval(), (torch.randn(4, 4),)
    model, inputs = {**foreign_zoo.FULL, **foreign_zoo.SMALL}[name.removesuffix(BF16)]()
    with torch.no_grad():
        for weight in model.parameters():
            if not weight.any():  # a model of zeros, as some begin, would give zeros whatever it computes
                weight.normal_(0, 0.02)
    if name.endswith(BF16):
        model, inputs = model.bfloat16(), tuple(x.bfloat16() if x.is_floating_point() else x for x in inputs)
    return model.eval(), inputs


def run_model(name: str, target: Path, *, timed: bool) -> None:
    """Compile a model in this process; write what was found."""
    import torch

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    model, inputs = make(name)
    with torch.inference_mode(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()  # what is imported by then counts
        ours = torch.compile(model, backend="autotune")
        result = ours(*inputs)
        found: dict[str, Any] = {"warm_seconds" if timed else "cold_seconds": time.perf_counter() - begun}
        found["said"] = sorted({str(each.message) for each in caught if "backend autotune" in str(each.message)})
        if timed:
            found |= check(model, inputs, result)
            torch._dynamo.reset()
            begun = time.perf_counter()
            inductor = torch.compile(model)
            inductor(*inputs)
            found["inductor_seconds"] = time.perf_counter() - begun
            ways = {"ours": ours, "inductor": inductor, "eager": model}
            found["seconds"] = take_turns({way: lambda f=f: f(*inputs) for way, f in ways.items()})
    target.write_text(json.dumps(found))


def trace_model(name: str, target: Path) -> None:
    """Trace a model in this process, for PyTorch itself to run; write what its first call takes."""
    import torch

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    model, inputs = make(name)
    with torch.inference_mode():
        begun = time.perf_counter()
        torch.compile(model, backend="eager")(*inputs)
    target.write_text(json.dumps({"traced_seconds": time.perf_counter() - begun}))


def check(model: Any, inputs: tuple[Any, ...], result: Any) -> dict[str, Any]:  # noqa: ANN401 - of torch
    """Largest errors of ours and of PyTorch's float32, relative to the largest value of float64."""
    exact = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    largest = exact.abs().max().item()
    errors = [((each.double() - exact).abs().max() / largest).item() for each in (result, model(*inputs))]
    return {"error": errors[0], "eager_error": errors[1], "right": errors[0] <= max(TOLERANCE, AS_PYTORCH * errors[1])}


def take_turns(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of a call by each way, round by round in turn."""
    for way in ways.values():
        for _ in range(3):
            way()
    calls = {name: max(1, int(ROUND_SECONDS / seconds_of(way, 2))) for name, way in ways.items()}
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            rounds[name].append(seconds_of(way, calls[name]))
    return {name: median(each) for name, each in rounds.items()}


def seconds_of(way: Callable[[], Any], calls: int) -> float:
    """Seconds of a call, of so many in a row."""
    begun = time.perf_counter()
    for _ in range(calls):
        way()
    return (time.perf_counter() - begun) / calls


First = Annotated[bool, typer.Option(help="Only first calls, with programs that are kept, of what is recorded.")]
HOW = ("cold", "timed", "traced")  # a process is for: the first call, the first with kept programs, PyTorch's tracing


def measure(only: Only = "", first: First = False) -> None:
    """Record every model that contains `only`."""
    for name in (TINY, *(name for kind in MODELS.values() for name in kind)):
        if only not in name:
            continue
        found = read(file_of("torch_backend"), name.replace(" ", "_")) if first else {}
        if first and not found:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for how in HOW[::2] if first else HOW:
                target = Path(folder) / "found.json"
                command = [sys.executable, __file__, "one", name, str(target), how]
                subprocess.run(command, check=True, env=with_bytecode())
                took = json.loads(target.read_text())
                found |= {"warm_seconds": took["cold_seconds"]} if first and how == "cold" else took
        keep("torch_backend", name.replace(" ", "_"), {"model": name, **found})


def with_bytecode() -> dict[str, str]:
    """This environment, where Python keeps the bytecode of what it imports, as it does unless it is told otherwise."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def part(path: Path) -> str:
    """The table of a machine."""
    names = (TINY, *(name for kind in MODELS.values() for name in kind))
    found = [each for name in names if (each := read(path, name.replace(" ", "_")))]
    models = [each for each in found if each["model"] != TINY]
    if not models:
        return ""
    rows = [
        f"| `{each['model']}` | {each['seconds']['ours'] * 1e3:.3g} ms | "
        + " | ".join(f"{each['seconds'][way] / each['seconds']['ours']:.2f} x" for way in OTHERS)
        + f" | {each['error']:.1g} | {each['warm_seconds']:.1f} s | {traced(each)} | {each['inductor_seconds']:.1f} s |"
        for each in models
    ]
    brain = [each for each in models if each["model"].endswith(BF16)]
    lines = [f"\nIn `results/{path.parent.name}`:"]
    for kind, of_kind in (("f32", [each for each in models if each not in brain]), ("bf16", brain)):
        lines += [summary(kind, of_kind)] if of_kind else []
    for each in found:
        if each["model"] == TINY:
            took = {way: f"{seconds * 1e6:.0f} us" for way, seconds in each["seconds"].items()}
            lines.append(
                f"A call of {TINY} takes {took['ours']}, Inductor's {took['inductor']}, eager's {took['eager']}."
            )
    first = ("first call, kept", "traced alone", "first call, Inductor")
    head = ("model", "a call", "Inductor / ours", "eager / ours", "error", *first)
    return "\n".join(lines) + "\n\n" + table(head, rows)


def summary(kind: str, models: Sequence[Mapping[str, Any]]) -> str:
    """How many models of a kind are right, and how fast they are beside PyTorch's, a sentence."""
    parts = [f"In {kind}, {sum(each['right'] for each in models)} of {len(models)} right"]
    for way in OTHERS:
        ratios = [each["seconds"][way] / each["seconds"]["ours"] for each in models]
        parts.append(f"geometric mean {geometric_mean(ratios):.2f} x {way} (worst {min(ratios):.2f})")
    return "; ".join(parts) + "."


def traced(found: dict[str, Any]) -> str:
    """Seconds of a first call that only traces, in a table; a dash where it was not measured."""
    return f"{found['traced_seconds']:.1f} s" if "traced_seconds" in found else "-"


BLOCK = Block("torch_backend", part, measure)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        _, _, wanted, path, way = sys.argv
        if way == "traced":
            trace_model(wanted, Path(path))
        else:
            run_model(wanted, Path(path), timed=way == "timed")
    else:
        BLOCK.serve()
