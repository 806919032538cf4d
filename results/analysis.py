"""What is known of payloads beforehand, in docs/results.md: read it off (`measure`), and write its table (`render`).

Nothing is timed: counts, predicted misses, and a simulation of every address of small cases. The imported model is a
small BERT, written as an ONNX file with random weights; reading it needs the extra `import`.
"""

import os
from collections import Counter
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, Only, keep, read, table

from autotune.contrib.analysis.analysed import Analysis, analyse_program
from autotune.contrib.analysis.text import needed
from autotune.core.host.machine import this_machine
from autotune.reports.format import size
from autotune.reports.scheduled import as_recorded, candidate_of
from autotune.worker.loading.reading import open_payload, partition
from payload.onnx_bert import BertSizes, write_bert

BERT = "bert.onnx"
PAYLOADS = ("nano", "gpt2", BERT)
HEADS = (
    "payload",
    "ops",
    "values, fused",
    "need bf16, f16, f32",
    "arena",
    "flop",
    "touched",
    "fetched, L1",
    "L2",
    "L3",
)
ENDS = ("misses, predicted over simulated", "share of accesses, off by")


def measure(only: Only = "") -> None:
    """Read every payload whose name contains a text."""
    for name in (name for name in PAYLOADS if only in name):
        if name == BERT and find_spec("torch_mlir") is None:
            typer.echo("an ONNX file needs the extra `import`, which is not installed; left as it is", err=True)
            continue
        with TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder  # where imported models are kept
            found = facts_of(analyse(written(folder) if name == BERT else name))
        keep("analysis", name, found)
        typer.echo(row(name, found))


def written(folder: str) -> str:
    """The model's file."""
    sizes = BertSizes(tokens=32, width=64, layers=2, heads=2, hidden=256, vocab=1000)
    return str(write_bert(Path(folder) / BERT, sizes))


def analyse(spec: str) -> Analysis:
    """The analyses of a payload with default configs."""
    payload, machine = open_payload(spec), this_machine()
    parts = partition(payload)
    tasks = [as_recorded(task, None, machine) for task in parts.tasks]
    candidate = candidate_of(tasks, machine, parts.payload.text)
    return analyse_program(payload, parts.payload.text, candidate, tasks, machine)


def facts_of(found: Analysis) -> dict[str, Any]:
    """What is recorded of a payload."""
    facts, plan = found.facts, found.plan
    return {
        "ops": len(facts.ops),
        "edges": len(facts.edges),
        "fused": sum(not edge.why_apart for edge in facts.edges),
        "why_apart": Counter(edge.why_apart for edge in facts.edges if edge.why_apart),
        "needs": Counter(needed(value) for value in facts.values),
        "why_not": facts.why_not,
        "flops": sum(op.arithmetic * op.trips for op in facts.ops),
        "touched": sum(op.bytes * op.trips for op in facts.ops),
        "arena": plan.to_json() if plan is not None else None,
        "caches": {cache.name: {"bytes": cache.bytes, "fetched": sum(cache.fetched)} for cache in found.caches},
        "cases": [asdict(case) | {"worst": case.worst} for case in found.agreements],
        "machine": asdict(this_machine()),
    }


def part(path: Path) -> str:
    """A recorded machine's table."""
    rows = [row(name, found) for name in PAYLOADS if (found := read(path, name))]
    if not rows:
        return ""
    return (
        f"\nIn `results/{path.parent.name}`: ops of the text and values between them; how many values could be "
        "rounded to a type alone, a dash where that was not tried; the arena of the default schedules. Flop, and bytes "
        "that the plain loops touch and that each cache fetches, are of a call. Misses of small cases, all caches of 8 "
        "lines and up together: in ones that drop what was used longest ago, and with 8 ways; then by how much the "
        "share of accesses that miss is off, for half of the ops and at worst.\n\n" + table((*HEADS, *ENDS), rows)
    )


def row(name: str, found: dict[str, Any]) -> str:
    """One line of the table."""
    needs = " / ".join(str(found["needs"].get(kind, 0)) for kind in ("bf16", "f16", "f32"))
    tried = needs if set(found["needs"]) - {"-"} else "-"
    fetched = [
        size(found["caches"][level]["fetched"]) if level in found["caches"] else "-" for level in ("L1", "L2", "L3")
    ]
    cases = found["cases"]
    predicted = sum(sum(case["predicted"]) for case in cases)
    ratios = [predicted / sum(sum(case[kind]) for case in cases) for kind in ("simulated", "in_ways")]
    worst = [case["worst"] for case in cases]
    cells = [
        f"`{name}`",
        str(found["ops"]),
        f"{found['edges']}, {found['fused']}",
        tried,
        size(found["arena"]["peak_bytes"]) if found["arena"] else "-",
        f"{found['flops']:.3g}",
        size(found["touched"]),
        *fetched,
        f"{ratios[0]:.3f}, {ratios[1]:.3f}",
        f"{median(worst):.1%}, {max(worst):.1%}",
    ]
    return f"| {' | '.join(cells)} |"


BLOCK = Block("analysis", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
