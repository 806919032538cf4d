"""What each technique is worth, in docs/results.md: measure it (`measure`), and write its table (`render`).

Each row is one `autotune explain BUNDLE --steps` command on a recorded bundle; its JSON goes to
results/<machine>/ablations.json.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from blocks import Block, Only, home, keep, read, run, slug, table

from autotune.core.console import duration


@dataclass(frozen=True)
class Ablation:
    """One row of the table.

    Attributes:
        payload: Spec of the payload to build up.
        baseline: Baseline to begin with; none where the pass pipeline takes minutes a call.
    """

    payload: str
    baseline: str = "passes"


ABLATIONS = (
    Ablation("matmul,m=512,n=512,k=512"),
    Ablation("matmul,m=512,n=512,k=512,constant_b=1"),
    Ablation("attention,heads=12,seq=128,d=64"),
    Ablation("layer_norm,rows=128,cols=768"),
    Ablation("softmax,rows=128,cols=768"),
    Ablation("gelu,rows=128,cols=768"),
    Ablation("nano"),
    Ablation("gpt2", "none"),
)


def measure(only: Only = "") -> None:
    """Build every recorded bundle up from its baseline."""
    for ablation in ABLATIONS:
        if only not in ablation.payload:
            continue
        bundle = home() / "bundles" / slug(ablation.payload)
        found = json.loads(
            run(["autotune", "explain", str(bundle), "--steps", "--baseline", ablation.baseline, "--json"])
        )
        keep("ablations", ablation.payload, found)
        typer.echo(row(ablation, found, names_of([found])))


def part(path: Path) -> str:
    """A recorded machine's ablations."""
    found = {ablation: read(path, ablation.payload) for ablation in ABLATIONS}
    recorded = {ablation: data for ablation, data in found.items() if data}
    names = names_of(list(recorded.values()))
    rows = [row(ablation, data, names) for ablation, data in recorded.items()]
    return (
        f"\nIn `results/{path.parent.name}`: the time of the first program, then what each step more gains, with "
        "its 95 % interval; all programs of a row interleaved, their outputs verified. A dash: the step changes "
        "nothing there.\n\n" + table(("payload", "first", *names, "last"), rows)
    )


def names_of(found: list[dict[str, Any]]) -> list[str]:
    """Steps that any row has, in order."""
    names: dict[str, None] = {}
    for data in found:
        names.update(dict.fromkeys(step["name"] for step in data["rows"][1:]))
    longest = max((list(dict.fromkeys(s["name"] for s in data["rows"][1:])) for data in found), key=len, default=[])
    return [*longest, *(name for name in names if name not in longest)]


def row(ablation: Ablation, data: dict[str, Any], names: list[str]) -> str:
    """One line of the table."""
    first, *steps = data["rows"]
    by_name = {step["name"]: step for step in steps}
    cells = [gain(by_name.get(name)) for name in names]
    start = f"{first['name'].removeprefix('+ ')} {seconds(first)}"
    return f"| `{ablation.payload}` | {start} | " + " | ".join(cells) + f" | {seconds(steps[-1])} |"


def gain(step: dict[str, Any] | None) -> str:
    """What a step gains; a dash where it changes nothing."""
    if step is None or not step["tasks"]:
        return "-"
    if step["factor"] is None:
        return str(step["outcome"]).partition(":")[0]
    factor = step["factor"]
    return f"{factor['estimate']:.3g} x [{factor['low']:.3g}, {factor['high']:.3g}]"


def seconds(step: dict[str, Any]) -> str:
    """The time of a step, or why it has none."""
    if step["seconds"] is None:
        return str(step["outcome"]).partition(":")[0]
    return duration(float(step["seconds"]["estimate"]))


BLOCK = Block("ablations", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
