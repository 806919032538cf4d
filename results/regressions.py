"""How well `autotune regress` finds regressions: live runs (`measure`), simulations, and their table (`render`).

A bundle that claims to be 5 % faster than it is, and one that is 5 % slower than it was, are the same to a gate: the
first is made by dividing the recorded times of a copy. Simulations draw sessions from all that were measured live:
some play the recording, others the check, with or without their times multiplied.
"""

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from blocks import Block, Only, file_of, home, keep, read, slug, table

from autotune.bundles.regress import QUICK_SESSIONS
from autotune.bundles.verdict import is_settled, judge
from autotune.core.care import FULL
from autotune.store.bundle import read_bundle, write_bundle
from autotune.store.records import ProcessTimes
from autotune.store.sessions import speedup_of

PAYLOADS = ("nano", "matmul,m=64,n=64,k=64")
FACTOR = 1.05
SIMULATIONS = 1000


HEAD = (
    "bundle",
    "live, caught",
    "live, false alarms",
    "simulated, caught",
    "simulated, false alarms",
    "inconclusive live",
    "seconds a run",
)


def measure(
    only: Only = "",
    runs: Annotated[int, typer.Option(help="Live runs of each kind.")] = 20,
) -> None:
    """Check every bundle `runs` times as it is, and as often with a slowdown injected."""
    for payload in (payload for payload in PAYLOADS if only in payload):
        bundle = home() / "bundles" / slug(payload)
        with TemporaryDirectory() as folder:
            fresh = Path(shutil.copytree(bundle, Path(folder) / "unchanged"))
            check(fresh, "--update")  # of today, on this machine
            spoilt = claim_faster(fresh, Path(folder) / "slower")
            found = {"unchanged": [], "slower": []}
            for _ in range(runs):
                found["unchanged"].append(check(fresh))
                found["slower"].append(check(spoilt))
        keep("regressions", payload, summarize(found))
        typer.echo(row(payload, read(file_of("regressions"), payload)))


def check(bundle: Path, *options: str) -> dict[str, object]:
    """One run of the command; its finding."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = ["autotune", "regress", str(bundle), "--quick", "--output", str(file), *options]
        command += ["--history", f"{folder}/history.jsonl"] if options else []
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 1):
            raise typer.Exit(done.returncode)
        (finding,) = json.loads(file.read_text())
    return dict(finding)


def claim_faster(bundle: Path, target: Path) -> Path:
    """A copy of a bundle that claims to have been faster by `FACTOR`."""
    read_in = read_bundle(bundle)
    samples = tuple(scaled(session, 1 / FACTOR) for session in read_in.manifest.samples)
    speedup = speedup_of(samples, read_in.manifest.baseline.part_error)
    return write_bundle(target, read_in.texts, replace(read_in.manifest, samples=samples, speedup=speedup))


def scaled(session: ProcessTimes, factor: float) -> ProcessTimes:
    """A session whose schedule takes `factor` times as long."""
    return replace(session, best_seconds=tuple(seconds * factor for seconds in session.best_seconds))


def summarize(found: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """Verdicts, seconds a run, and every session."""
    return {
        "factor": FACTOR,
        "verdicts": {kind: Counter(str(f["verdict"]) for f in findings) for kind, findings in found.items()},
        "seconds": [f["seconds"] for findings in found.values() for f in findings],
        "sessions": [session for findings in found.values() for f in findings for session in f["samples"]],  # type: ignore[attr-defined]
    }


def simulate(sessions: Sequence[ProcessTimes], slowdown: float, seed: int = 0) -> Counter[str]:
    """Verdicts of checks whose sessions are drawn from those that were measured."""
    draw = random.Random(seed)
    verdicts: Counter[str] = Counter()
    for _ in range(SIMULATIONS):
        drawn = draw.sample(sessions, FULL.sessions + QUICK_SESSIONS)
        recorded, rest = drawn[: FULL.sessions], [scaled(session, slowdown) for session in drawn[FULL.sessions :]]
        for count in range(1, QUICK_SESSIONS + 1):
            verdict = judge(recorded, rest[:count], FACTOR).verdict
            if is_settled(verdict, count, QUICK_SESSIONS):
                break
        verdicts[verdict] += 1
    return verdicts


def part(path: Path) -> str:
    """A recorded machine's checks."""
    rows = [row(payload, data) for payload in PAYLOADS if (data := read(path, payload))]
    return (
        f"\nIn `results/{path.parent.name}`, `autotune regress --quick`, {FACTOR - 1:.0%} slowdown injected; "
        f"{SIMULATIONS} simulations draw from the sessions of the live runs:\n\n" + table(HEAD, rows)
    )


def row(payload: str, data: dict[str, dict[str, dict[str, int]]]) -> str:
    """One line of the table."""
    live = data["verdicts"]
    sessions = [ProcessTimes(*(tuple(times) for times in session.values())) for session in data["sessions"]]  # type: ignore[attr-defined]
    slower, unchanged = simulate(sessions, FACTOR), simulate(sessions, 1.0)
    runs = {kind: sum(counts.values()) for kind, counts in live.items()}
    unsure = sum(counts.get("inconclusive", 0) for counts in live.values())
    seconds = sorted(data["seconds"])[len(data["seconds"]) // 2]
    return (
        f"| `{payload}` | {live['slower'].get('slower', 0)} of {runs['slower']} "
        f"| {live['unchanged'].get('slower', 0)} of {runs['unchanged']} | {slower['slower'] / SIMULATIONS:.1%} "
        f"| {unchanged['slower'] / SIMULATIONS:.1%} | {unsure} of {sum(runs.values())} | {seconds:.0f} |"
    )


BLOCK = Block("regressions", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
