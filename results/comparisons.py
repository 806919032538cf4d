"""The comparison with other libraries in docs/results.md: measure it (`measure`), and write its table (`render`).

Each row is one `autotune tune` command, whose bundle goes to results/<machine>/bundles/, and one `autotune compare`
command beside it, whose JSON goes to results/<machine>/comparisons/.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, Only, home, load, run, slug, table

from autotune.core.console import duration

LIBRARIES = ("onnxruntime", "numpy", "torch", "iree")


@dataclass(frozen=True)
class Comparison:
    """One row of the table.

    Attributes:
        payload: Spec of the payload to compare.
        target: Speed-up over ONNX Runtime that it should reach.
        trials: Number of trials of the sweep before.
        baseline: Baseline of the sweep; `loops` where the pass pipeline takes minutes a call.
    """

    payload: str
    target: str
    trials: int = 40
    baseline: str = "passes"


FOLDER = "comparisons"
COMPARISONS = (
    Comparison("matmul,m=512,n=512,k=512,constant_b=1", "1"),
    Comparison("matmul,m=256,n=512,k=512,constant_b=1", "1"),
    Comparison("matmul,m=128,n=3072,k=768,constant_b=1", "1"),
    Comparison("matmul,m=1024,n=1024,k=1024,constant_b=1", "1"),
    Comparison("matmul,m=128,n=768,k=3072,constant_b=1", "1"),
    Comparison("matmul,m=512,n=512,k=512", "1", 100),
    Comparison("matmul,m=256,n=512,k=512", "1"),
    Comparison("matmul,m=128,n=3072,k=768", "1"),
    Comparison("attention,heads=1,seq=512,d=64", "1"),
    Comparison("attention,heads=1,seq=4096,d=64", "1"),
    Comparison("attention,heads=12,seq=128,d=64", "1"),
    Comparison("attention,heads=12,seq=128,d=64,causal=1", "1.5"),
    Comparison("layer_norm,rows=128,cols=768", "1"),
    Comparison("softmax,rows=128,cols=768", "1"),
    Comparison("gelu,rows=128,cols=768", "1"),
    Comparison("layer_norm,rows=1024,cols=3072", "1"),
    Comparison("softmax,rows=1024,cols=3072", "1"),
    Comparison("gelu,rows=1024,cols=3072", "1"),
    Comparison("embedding,rows=128,cols=768,vocab=50257", "1"),
    Comparison("nano", "1.5", 200),
    Comparison("gpt2", "1.15", 80, "loops"),
)


def measure(only: Only = "") -> None:
    """Tune every payload from an empty store, then compare it."""
    for comparison in COMPARISONS:
        if only in comparison.payload:
            bundle = home() / "bundles" / slug(comparison.payload)
            with TemporaryDirectory() as folder:
                command = ["autotune", "tune", comparison.payload, "--trials", str(comparison.trials), "--seed", "0"]
                command += [
                    "--cold",
                    "--anew",
                    "--baseline",
                    comparison.baseline,
                    "--store",
                    f"{folder}/store.journal",
                    "--json",
                ]
                run([*command, "--bundle", str(bundle)])
            found = json.loads(
                run(["autotune", "compare", comparison.payload, "--bundle", str(bundle), *options(comparison)])
            )
            del found["notes"]  # they name paths on this machine
            path_of(home(), comparison).parent.mkdir(parents=True, exist_ok=True)
            path_of(home(), comparison).write_text(json.dumps(found) + "\n")
            typer.echo(row(comparison, found))


def path_of(folder: Path, comparison: Comparison) -> Path:
    """Where a machine's comparison lies: a file of its own, as `report` reads what `compare --json` printed."""
    return folder / FOLDER / f"{slug(comparison.payload)}.json"


def options(comparison: Comparison) -> list[str]:
    """Options of the comparison."""
    return [
        "--baseline",
        "none" if comparison.baseline == "loops" else comparison.baseline,
        "--rivals",
        "best",
        "--json",
    ]


def part(path: Path) -> str:
    """A recorded machine's comparisons."""
    found = {comparison: load(path_of(path.parent, comparison)) for comparison in COMPARISONS}
    rows = [row(comparison, data) for comparison, data in found.items() if data]
    versions = sorted({version for data in found.values() if data for version in versions_of(data)})
    head = ("payload", "default", "best", "of the roof", *LIBRARIES, "over ONNX Runtime", "target")
    return (
        f"\nIn `results/{path.parent.name}`, one thread; {', '.join(versions)}. Over ONNX Runtime is best, "
        "with a 95 % interval. The roof is that of fused multiply-adds, or, without "
        "contractions, the bandwidth of copying as many bytes.\n\n" + table(head, rows)
    )


def versions_of(data: dict[str, Any]) -> list[str]:
    """Names and version numbers of the libraries that ran."""
    ran = [r for r in data["rows"] if r["name"] in LIBRARIES and r["seconds"]]
    return [" ".join(str(r["version"]).replace(",", "").split()[:2]) for r in ran]


def row(comparison: Comparison, data: dict[str, Any]) -> str:
    """One line of the table."""
    rows = {r["name"]: r for r in data["rows"]}
    times = [duration(rows.get(name, {}).get("seconds")) for name in ("default", "best")]
    others = [duration(rows.get(name, {}).get("seconds")) for name in LIBRARIES]
    cells = [f"`{comparison.payload}`", *times, share(rows), *others, advantage(rows), f"{comparison.target} x"]
    return "| " + " | ".join(cells) + " |"


def share(rows: dict[str, dict[str, Any]]) -> str:
    """How near the best is to its roof: a read or copy of as many bytes where one raced, else multiply-adds."""
    for name in ("read", "copy"):
        if seconds := rows.get(name, {}).get("seconds"):
            return f"{seconds / rows['best']['seconds']:.0%} of {name} bandwidth"
    return f"{rows['best']['roof_fraction']:.0%}"


def advantage(rows: dict[str, dict[str, Any]]) -> str:
    """How many times as long as the best ONNX Runtime takes, with its 95 % interval."""
    theirs = rows.get("onnxruntime", {})
    ratio, interval = theirs.get("ratio"), theirs.get("ratio_interval")
    return f"{ratio:.2f} x [{interval[0]:.2f}, {interval[1]:.2f}]" if ratio and interval else "-"


BLOCK = Block(FOLDER, part, measure, f"*/{FOLDER}")


if __name__ == "__main__":
    BLOCK.serve()
