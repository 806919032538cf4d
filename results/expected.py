"""What a tutorial expects of each technique beside what we measure, in docs/results.md: `measure`, then `render`.

Expected is the summary of chapter 14 of the tutorial that this project grew out of (`TUTORIAL`). A technique of the
forward pass is measured twice: added to plain loops, as the tutorial adds its pass, and taken out of our own program.
Both programs of a ratio are verified, and run in turn in one session; samples go to results/<machine>/expected.json.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from blocks import Block, Only, file_of, home, keep, read, run, slug, table

from autotune.contrib.explain.ablation import Variant, drop, load_techniques, run_variants, winner_of
from autotune.contrib.generate.gpt import PRESETS
from autotune.contrib.generate.pace import Pace, cache_gain
from autotune.core.candidate import Candidate
from autotune.core.console import duration
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.core.stats import ratio_interval
from autotune.registry import load_baseline
from autotune.reports.scheduled import Scheduled, as_recorded, candidate_of
from autotune.store.bundle import read_bundle
from autotune.tuning.stages.slow_baseline import part_for
from autotune.worker.loading.reading import open_payload, partition

TUTORIAL = "[chapter 14](https://github.com/zhwa/mlir-example/tree/main/ch.14.GPT-Optimized)"
MODELS = ("nano", "gpt2")
NEW = 20  # tokens that are generated
LONG = 512  # tokens of the long prompt, where the model has positions for as many
LICM_PASS, TO_LOOPS = "loop-invariant-code-motion,", "convert-linalg-to-loops,"
LICM_MOVE = re.compile(r"^.*transform\.loop\.hoist_loop_invariant_subsets .*\n", re.MULTILINE)
VECTORS = re.compile(r"^.*transform\.structured\.vectorize .*\n", re.MULTILINE)
OURS, SCALAR = "ours", "ours, neither packed nor vectorized"


@dataclass(frozen=True)
class Row:
    """A line of the table, and the pairs of programs that it compares, the slower first.

    Attributes:
        name: Technique.
        expected: What the tutorial expects of it.
        added: Plain loops, and the same with the technique.
        taken: Our program without it, and with it.
    """

    name: str
    expected: str
    added: tuple[str, str]
    taken: tuple[str, str] | None


FORWARD = (
    Row("fusion of element-wise ops", "1.2 to 1.5 x", ("loops", "loops + fusion"), ("ours without fusion", OURS)),
    Row("loop-invariant code motion", "1.1 x", ("loops", "loops + motion"), ("ours without motion", OURS)),
    Row("vectorization", "2 to 3 x", ("loops", "vectorized"), (SCALAR, "ours, not packed")),
    Row("all combined, a forward pass", "3 to 5 x", ("loops", OURS), None),
)
SESSIONS = (  # programs that run in turn; what takes seconds a call would leave the others three samples
    ("ours without fusion", "ours without motion", OURS),
    ("loops", "loops + fusion", "loops + motion", "vectorized", OURS),
    (SCALAR, "ours, not packed"),
)


def programs(payload: Payload, machine: Machine, bundle: Path) -> dict[str, Candidate]:
    """Every program of the table, by name; ours is the bundle's winner, or without a bundle what no search chose."""
    parts = partition(payload)
    tasks, text = [as_recorded(task, None, machine) for task in parts.tasks], parts.payload.text
    ours = winner_of(read_bundle(bundle), machine) if bundle.exists() else (tasks, text)
    loops, passes = (load_baseline(name).pipeline for name in ("loops", "passes"))
    part = part_for(payload.flops or sum(task.needed_flops * task.count for task in parts.tasks))
    named = {technique.name: technique for technique in load_techniques()}

    def without(name: str) -> Candidate:
        return candidate_of([drop(task, [named[name]], machine) for task in ours[0]], machine, ours[1])

    def plainest(task: Scheduled) -> Scheduled:
        return drop(task, load_techniques(), machine)

    mine, unpacked = candidate_of(ours[0], machine, ours[1]), without("pack")
    motion = loops.replace(TO_LOOPS, f"{TO_LOOPS}canonicalize,{LICM_PASS}")
    return {
        "loops": Candidate(None, loops, part=part),
        "loops + fusion": Candidate(None, passes.replace(LICM_PASS, ""), part=part),
        "loops + motion": Candidate(None, motion, part=part),
        "vectorized": candidate_of([plainest(task) for task in tasks], machine, text),
        OURS: mine,
        "ours without fusion": without("fuse"),
        "ours without motion": replace(rewritten(mine, LICM_MOVE), pipeline=mine.pipeline.replace(LICM_PASS, "")),
        "ours, not packed": unpacked,
        SCALAR: rewritten(unpacked, VECTORS),
    }


def rewritten(candidate: Candidate, moves: re.Pattern[str]) -> Candidate:
    """A candidate whose script lacks some moves; those that give no handle can be left out alone.

    Raises:
        ValueError: The script has none of them, so that nothing would be compared.
    """
    assert isinstance(candidate.script, str)  # our families write text
    script, count = moves.subn("", candidate.script)
    if not count:
        raise ValueError(f"a script must have moves like {moves.pattern} to leave out, it has none")
    return replace(candidate, script=script)


def measure_forward(model: str) -> dict[str, Any]:
    """Every program of a model's forward pass: its samples in each session it is in."""
    machine, payload, bundle = this_machine(), open_payload(model), home() / "bundles" / slug(model)
    candidates = programs(payload, machine, bundle)
    sessions = []
    for names in SESSIONS:
        variants = [Variant(name, candidates[name], ()) for name in names]
        found = run_variants(payload, variants, machine)
        sessions.append(
            {
                name: {
                    "seconds": list(one.samples.seconds) if one.samples else None,
                    "max_error": one.max_error,
                    "outcome": one.outcome if not one.diagnostic else f"{one.outcome}: {one.diagnostic}",
                    "part": candidates[name].part,
                }
                for name, one in zip(names, found, strict=True)
            }
        )
    return {"tuned": bundle.exists(), "sessions": sessions, "machine": asdict(machine)}


def measure_generation(model: str) -> dict[str, Any]:
    """The same tokens with a cache and without it, behind a short prompt and a long one."""
    config, found = PRESETS[model], {}
    for name, length in {"short": 1, "long": min(LONG, config.positions + 1 - NEW)}.items():
        prompt = ",".join(str(token % config.vocab) for token in range(length))
        command = ["autotune", "generate", model, "--both", "--prompt-tokens", prompt, "--max-new", str(NEW), "--json"]
        result = json.loads(run(command))
        found[name] = {"prompt": length, "runs": result["runs"]}
    return found


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {"forward": measure_forward, "generation": measure_generation}


def measure(
    only: Only = "",
    part: Annotated[str, typer.Option(help="Only forward, or only generation.")] = "",
) -> None:
    """Time every program of every model, and generate tokens with the cache and without it."""
    for model in MODELS:
        if only not in model:
            continue
        found = read(file_of("expected"), model)
        for name, take in PARTS.items():
            if part in name:
                found[name] = take(model)
        keep("expected", model, found)
    typer.echo(part_of_page(file_of("expected")))


def part_of_page(path: Path) -> str:
    """A machine's table."""
    found = {model: data for model in MODELS if (data := read(path, model))}
    if not found:
        return ""
    heads = ["technique", "expected"]
    heads += [f"{model}, {how}" for model in found for how in ("added to loops", "taken out of ours")]
    rows = [line(row, found) for row in FORWARD] + cache_lines(found)
    first = ", ".join(
        f"{model} {seconds(data['forward'], 'loops')} in plain loops, {seconds(data['forward'], OURS)} in ours"
        for model, data in found.items()
        if "forward" in data
    )
    tuned = [model for model, data in found.items() if data.get("forward", {}).get("tuned")]
    ours = f"ours is the winner of a search for {', '.join(tuned)}" if tuned else "ours is what no search chose"
    return (
        f"\nIn `results/{path.parent.name}`, one thread; {ours}. A forward pass: {first}. How many times as fast a "
        f"program is with the technique, 95 % interval.{parts_of_calls(found)}\n\n" + table(heads, rows)
    )


def parts_of_calls(found: dict[str, Any]) -> str:
    """A sentence a model of whose programs only a part was timed."""
    text = ""
    for model, data in found.items():
        sessions = data.get("forward", {}).get("sessions", [])
        part = max((one["part"] for session in sessions for one in session.values()), default=1)
        if part > 1:
            text += f" Loops of {model} take minutes: one in {part} iterations was timed, and multiplied, not verified."
    return text


def line(row: Row, found: dict[str, Any]) -> str:
    """A technique of the forward pass."""
    cells = []
    for data in found.values():
        cells += [gain(data.get("forward"), pair) for pair in (row.added, row.taken)]
    return f"| {row.name} | {row.expected} | {' | '.join(cells)} |"


def gain(forward: dict[str, Any] | None, pair: tuple[str, str] | None) -> str:
    """What the second program of a pair is faster than the first, where one session ran both."""
    if forward is None or pair is None:
        return "-"
    for session in forward["sessions"]:
        if set(pair) <= set(session):
            slow, quick = (session[name] for name in pair)
            for one in (slow, quick):
                if one["seconds"] is None:
                    return str(one["outcome"]).partition(":")[0]
            times = ratio_interval(slow["seconds"], quick["seconds"])
            return f"{times.estimate:.3g} x [{times.low:.3g}, {times.high:.3g}]"
    return "-"


def seconds(forward: dict[str, Any], name: str) -> str:
    """The time of a program."""
    for session in forward["sessions"]:
        if name in session and session[name]["seconds"]:
            return duration(sorted(session[name]["seconds"])[len(session[name]["seconds"]) // 2])
    return "-"


def cache_lines(found: dict[str, Any]) -> list[str]:
    """Generation with the cache, a line a prompt."""
    lines = []
    for name in ("short", "long"):
        cells, prompts = [], []
        for data in found.values():
            one = data.get("generation", {}).get(name)
            cells += [f"{cache_gain(paces(one), NEW):.3g} x" if one else "-", "-"]
            prompts += [str(one["prompt"])] if one else []
        if prompts:
            behind = " and ".join(dict.fromkeys(prompts))
            lines.append(f"| key-value cache, {NEW} tokens behind {behind} | 10 to 20 x | {' | '.join(cells)} |")
    return lines


def paces(one: dict[str, Any]) -> tuple[Pace, ...]:
    """Runs as they were recorded."""
    return tuple(Pace(run["cached"], tuple(run["tokens"]), tuple(run["seconds"])) for run in one["runs"])


BLOCK = Block("expected", part_of_page, measure)


if __name__ == "__main__":
    BLOCK.serve()
