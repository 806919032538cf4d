"""The table of stateful inference in docs/results.md: measure it (`measure`), and write it (`render`).

Prefill and decode are tuned from empty stores, their bundles go to results/<machine>/bundles/; then each comparison is
one `autotune compare` or `autotune generate --both` command, whose JSON goes to results/<machine>/generation.json.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from blocks import Block, home, keep, read, run, slug, table

from autotune.contrib.generate.gpt import PRESETS
from autotune.contrib.generate.pace import Pace, cache_gain
from autotune.core.console import duration
from autotune.core.stats import Interval, ratio_interval

SHOWN = "gpt2"
POSITION = 127
STORED = {"bf16": "1.8 x", "int8": "3 x"}
PROMPTS = {"short": 16, "long": 512}
NEW = {20: "10 x", 100: "50 x"}  # tokens, and how much faster the cache should make them
LIBRARIES = {"onnxruntime": "ONNX Runtime", "torch": "PyTorch"}


@dataclass(frozen=True)
class Sweep:
    """A payload to be tuned; `loops` is its baseline, since the pass pipeline takes minutes a call of GPT-2."""

    name: str
    payload: str
    trials: int

    def measure(self) -> None:
        """Tune it from an empty store."""
        with TemporaryDirectory() as folder:
            command = [
                "autotune",
                "tune",
                self.payload,
                "--trials",
                str(self.trials),
                "--seconds",
                "150",
                "--seed",
                "0",
            ]
            command += ["--cold", "--anew", "--baseline", "loops", "--store", f"{folder}/store.journal", "--json"]
            found = json.loads(run([*command, "--bundle", str(home() / "bundles" / slug(self.payload))]))
        typer.echo(f"{self.payload}: {duration(found['best']['seconds'])} after {found['seconds']:.0f} s")


@dataclass(frozen=True)
class Comparison:
    """A command whose JSON is recorded."""

    name: str
    model: str
    command: tuple[str, ...]

    def measure(self) -> None:
        """Run it."""
        found = json.loads(run(["autotune", *self.command, "--json"]))
        del found["notes"]  # they name paths on this machine
        keep("generation", f"{self.model}-{self.name}", found)
        typer.echo("\n".join(ROWS[self.name](found)))


def steps(model: str) -> Iterator[Sweep | Comparison]:
    """All that is measured of a model, in order."""
    config = PRESETS[model]
    decode, alone = f"{model},function=decode", ("--against", "", "--baseline", "none")
    yield Sweep("tune-prefill", f"{model},function=prefill", 60)
    yield Sweep("tune-decode", decode, 40)
    for form in STORED:
        yield Sweep(f"tune-{form}", f"{decode},weights={form}", 40)
    here = f"{decode},position={POSITION}"
    libraries = ("--against", ",".join(LIBRARIES), "--baseline", "none")
    yield Comparison("decode", model, ("compare", here, *libraries))
    yield Comparison("stored", model, ("compare", here, *alone, *beside(f"{here},weights={form}" for form in STORED)))
    for name, length in PROMPTS.items():
        kept = min(length, config.positions + 1 - max(NEW))
        prompt = ",".join(str(token % config.vocab) for token in range(kept))
        command = ("generate", model, "--both", "--prompt-tokens", prompt, "--max-new", str(max(NEW)))
        yield Comparison(f"cache-{name}", model, command)
    logits = [f"matmul,m={m},n={config.vocab},k={config.d_model},transpose_b=1,constant_b=1" for m in (1, config.seq)]
    yield Comparison("prefill", model, ("compare", f"{model},function=prefill", *libraries, *beside([model, *logits])))


def beside(payloads: "Iterator[str] | list[str]") -> list[str]:
    """Options of `autotune compare`."""
    return [word for payload in payloads for word in ("--beside", payload)]


def measure(
    only: Annotated[str, typer.Option(help="Only parts whose name contains this.")] = "",
    model: Annotated[str, typer.Option(help="Of another model, which the page does not show.")] = SHOWN,
) -> None:
    """Tune prefill and decode, then run the comparisons."""
    for step in steps(model):
        if only in step.name:
            step.measure()


def part(path: Path) -> str:
    """A machine's comparisons of the model that is shown."""
    found = {name: read(path, f"{SHOWN}-{name}") for name in ROWS}
    rows = [line for name, data in found.items() if data for line in ROWS[name](data)]
    if not rows:
        return ""
    return (
        f"\nIn `results/{path.parent.name}`, {SHOWN}, one thread; ratios are of one run, programs in turn, with 95 % "
        "intervals. The memory roof is a read of as many bytes as the weights take. Without a cache, a whole forward "
        "pass computes every token.\n\n" + table(("work", "time", "beside", "ratio", "at least"), rows)
    )


def decode_rows(data: dict[str, Any]) -> list[str]:
    """Decode beside the memory roof and the libraries."""
    rows = by_name(data)
    work, mine = f"decode, {POSITION + 1} in the cache, f32", ours(data)["seconds"]
    lines = []
    for name, title in {"read": "the memory roof", **LIBRARIES}.items():
        theirs = rows.get(name, {})
        if name == "read" or theirs.get("ratio"):
            shown = interval(theirs, percent=name == "read") if theirs else "-"
            version = f"{title}, {duration(theirs.get('seconds'))}"
            lines.append(line(work, mine, version, shown, "90 %" if name == "read" else "1 x"))
    return lines


def stored_rows(data: dict[str, Any]) -> list[str]:
    """Decode with bf16 and int8 weights beside f32."""
    mine, lines = ours(data), []
    for row in data["rows"]:
        for form, target in STORED.items():
            if f"weights={form}" in row["name"] and row["samples"]:
                gain = ratio_interval(mine["samples"]["seconds"], row["samples"]["seconds"])
                work, f32 = f"the same, weights in {form}", f"ours in f32, {duration(mine['seconds'])}"
                lines.append(line(work, row["seconds"], f32, times(gain), target))
    return lines


def cache_rows(data: dict[str, Any]) -> list[str]:
    """New tokens with the cache and without it."""
    paces = tuple(Pace(run["cached"], tuple(run["tokens"]), tuple(run["seconds"])) for run in data["runs"])
    lines = []
    for count, target in NEW.items():
        with_cache, without, _ = (sum(pace.seconds[:count]) for pace in paces)
        work = f"{count} new tokens behind {len(data['prompt'])}"
        gain = f"{cache_gain(paces, count):.1f} x"
        lines.append(line(work, with_cache, f"without the cache, {duration(without)}", gain, target))
    return lines


def prefill_rows(data: dict[str, Any]) -> list[str]:
    """Prefill beside a forward pass without the logits that prefill need not compute, and beside the libraries."""
    rows, mine = by_name(data), ours(data)
    forward, one, all_rows = ([*rows.values()][index] for index in indices_beside(data))
    lines = []
    if all(row["samples"] for row in (mine, forward, one, all_rows)):
        times_of = (row["samples"]["seconds"] for row in (forward, all_rows, one))
        bare = [whole - (many - few) for whole, many, few in zip(*times_of, strict=True)]
        title = f"forward, {duration(forward['seconds'])}, less the logits of all rows but one"
        gain = times(ratio_interval(bare, mine["samples"]["seconds"]))
        lines.append(line("prefill", mine["seconds"], title, gain, "1 x"))
    for name, title in LIBRARIES.items():
        theirs = rows.get(name, {})
        if theirs.get("ratio"):
            lines.append(
                line("prefill", mine["seconds"], f"{title}, {duration(theirs['seconds'])}", interval(theirs), "-")
            )
    return lines


ROWS = {
    "decode": decode_rows,
    "stored": stored_rows,
    **{f"cache-{name}": cache_rows for name in PROMPTS},
    "prefill": prefill_rows,
}


def indices_beside(data: dict[str, Any]) -> list[int]:
    """Indices of the rows of other payloads: behind ours."""
    first = [row["name"] for row in data["rows"]].index(str(data["ratio_to"])) + 1
    return [first, first + 1, first + 2]


def by_name(data: dict[str, Any]) -> dict[str, Any]:
    """Rows of a comparison by name."""
    return {row["name"]: row for row in data["rows"]}


def ours(data: dict[str, Any]) -> dict[str, Any]:
    """The row that others are measured against."""
    return dict(by_name(data)[data["ratio_to"]])


def interval(row: dict[str, Any], *, percent: bool = False) -> str:
    """How much longer than ours a row takes, or, of a roof, the share that ours reaches."""
    low, high = row["ratio_interval"]
    if percent:
        return f"{row['ratio']:.0%} [{low:.0%}, {high:.0%}]"
    return times(Interval(low, row["ratio"], high))


def times(ratio: Interval) -> str:
    """A ratio with its interval."""
    return f"{ratio.estimate:.2f} x [{ratio.low:.2f}, {ratio.high:.2f}]"


def line(work: str, seconds: float | None, beside: str, ratio: str, target: str) -> str:
    """One line of the table."""
    return f"| {work} | {duration(seconds)} | {beside} | {ratio} | {target} |"


BLOCK = Block("generation", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
