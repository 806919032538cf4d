"""A model of any size beside programs for each very size, in docs/results.md: `measure`, then `render`.

BERT and GPT-2 at their own widths, with one layer and few words (`dynamic_models`), are imported for batches of 1 to 8
of 1 to 512 tokens by one folder of at most 8 compiled sizes. At random sizes each result is compared with ONNX
Runtime's, and calls take turns with those of a program that was imported and compiled for that size alone. Both have
default schedules and one thread. What is recorded is not measured again. Needs the extras `import` and `compare`.
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Annotated, Any

import numpy as np
import typer
from blocks import Block, Only, file_of, keep, read, table

NAME, FILES = "dynamic", Path(__file__).resolve().parent.parent / "build" / "dynamic"
DIMS = ("batch=1..8", "tokens=1..512")
COUNT, SEED = 40, 32
ROUNDS, ROUND_SECONDS = 7, 0.05
TOLERANCE = 1e-3  # of the largest value, as at import
CLOSE = 1.15  # times a program of one's own size
MODELS = {"bert": "BERT", "gpt2": "GPT-2"}
HEAD = ("model", "right", "ratio", "within 15 %", "worst", "compiled sizes", "to open", "one copy of the weights")

Again = Annotated[bool, typer.Option(help="Also what is recorded.")]


def requests() -> list[tuple[int, int]]:
    """Random batches and tokens, the same each time."""
    rng = np.random.default_rng(SEED)
    return [(int(rng.integers(1, 9)), int(rng.integers(1, 513))) for _ in range(COUNT)]


def written(name: str) -> Path:
    """The file of a model, written where it is not there."""
    import dynamic_models

    path = FILES / f"{name}.onnx"
    if not path.is_file():
        FILES.mkdir(parents=True, exist_ok=True)
        dynamic_models.write(name, path)
    return path


def imported(name: str, *, again: bool) -> Path:
    """The folder of a model of any size, imported where it is not there."""
    from autotune.contrib.sizes.bounds import parse_bounds
    from autotune.contrib.sizes.making import import_sized
    from autotune.contrib.sizes.paths import is_sized

    folder = FILES / name
    if again or not is_sized(folder):
        import_sized(written(name), parse_bounds(DIMS), folder)
    return folder


def own_program(name: str, batch: int, tokens: int) -> Any:  # noqa: ANN401 - what `at.compile` gives
    """A program for one size alone."""
    import autotune as at

    return at.compile(at.payload(f"{written(name)},batch={batch},tokens={tokens}"))


def measure(only: Only = "", again: Again = False) -> None:
    """Record every model whose name contains `only`."""
    import onnxruntime

    import autotune as at

    for name in (each for each in MODELS if only in each):
        folder, found = imported(name, again=again), {} if again else read(file_of(NAME), name)
        begun = time.perf_counter()
        function = at.sizes.open(folder)
        opened = time.perf_counter() - begun
        session = onnxruntime.InferenceSession(str(written(name)), providers=["CPUExecutionProvider"])
        found = {"sizes": {}, **found, "model": name, "compiled": function.sizes, "open_seconds": opened}
        keep(NAME, name, found)
        for batch, tokens in requests():
            if f"{batch}x{tokens}" not in found["sizes"]:
                given = draw(function, batch, tokens)
                size = compare(function, own_program(name, batch, tokens), given)
                size["error"] = error_of(function(**given), session.run(None, given)[0])
                size["plan"] = function.plan(batch=batch, tokens=tokens)
                found["sizes"][f"{batch}x{tokens}"] = size
                found["panel_bytes"] = function.panel_bytes
                found["weight_bytes"] = sum(each.stat().st_size for each in folder.rglob("*.safetensors"))
                keep(NAME, name, found)
                typer.echo(f"{name} {batch}x{tokens}: {ratio_of(size):.3f} x, {size['plan']}")
            gc.collect()


def draw(function: Any, batch: int, tokens: int) -> dict[str, Any]:  # noqa: ANN401 - a model of any size
    """Inputs of a size; masks show at least the first token of each row."""
    rng = np.random.default_rng(batch * 1000 + tokens)
    found = {}
    for name in function.model.axes:
        found[name] = rng.integers(0, 2 if name == "mask" else 1000, (batch, tokens))
        if name == "mask":
            found[name][:, 0] = 1
    return found


def compare(function: Any, own: Any, given: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - programs
    """Seconds of a call of each, round by round in turn."""
    ways: dict[str, Callable[[], Any]] = {"any": lambda: function(**given), "own": lambda: own(**given)}
    return {"seconds": take_turns(ways)}


def take_turns(ways: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of a call by each way, round by round in turn."""
    took = {name: min(seconds_of(way, 1) for _ in range(2)) for name, way in ways.items()}
    calls = max(1, int(ROUND_SECONDS / max(took.values())))
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            rounds[name].append(seconds_of(way, calls))
    return rounds


def seconds_of(way: Callable[[], Any], calls: int) -> float:
    """Seconds of a call, of so many in a row."""
    begun = time.perf_counter()
    for _ in range(calls):
        way()
    return (time.perf_counter() - begun) / calls


def error_of(found: Any, want: Any) -> float:  # noqa: ANN401 - arrays
    """Largest difference over the largest value."""
    return float(np.abs(found - want).max() / np.abs(want).max())


def ratio_of(size: dict[str, Any]) -> float:
    """Time of the folder's call over that of a program of the very size: median of the rounds."""
    return median(a / b for a, b in zip(size["seconds"]["any"], size["seconds"]["own"], strict=True))


def part(path: Path) -> str:
    """The table of a machine."""
    rows = [row(found) for name in MODELS if (found := read(path, name))]
    return f"\nIn `results/{path.parent.name}`:\n\n" + table(HEAD, rows) if rows else ""


def row(found: dict[str, Any]) -> str:
    """One model."""
    sizes = found["sizes"]
    ratios = {name: ratio_of(size) for name, size in sizes.items()}
    worst = max(ratios, key=ratios.__getitem__)
    right = sum(size["error"] <= TOLERANCE for size in sizes.values())
    close = sum(ratio <= CLOSE for ratio in ratios.values())
    compiled = ", ".join("x".join(part.split("=")[1] for part in each.split(",")) for each in found["compiled"])
    return (
        f"| {MODELS[found['model']]} | {right} of {len(sizes)} | {geometric_mean(ratios.values()):.2f} x "
        f"| {close} of {len(sizes)} | {ratios[worst]:.2f} x at {worst} | {compiled} | {found['open_seconds']:.2f} s "
        f"| {found['weight_bytes'] / 2**20:.0f} MiB, panels {found['panel_bytes'] / 2**20:.0f} MiB |"
    )


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
