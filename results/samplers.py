"""Samplers on recorded spaces: every one replayed (`measure`), and the table (`render`).

A search asks as it does in `tune` and is told what was recorded; its time is what its trials took to compile, verify
and measure then, and what asking takes now. One that begins anywhere knows nothing; others begin with the family's
default. Lessons are the recordings of all other spaces of this machine. The score is Kernel Tuner's: how far the best
so far is between what random draws are expected to have then and the best there is, on average over the time that
random draws need for 95 % of the way from the median (Willemsen et al., A Methodology for Comparing Optimization
Algorithms for Auto-Tuning, FGCS 2024).
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

for each in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is loaded: its threads would count as time of the sampler
    os.environ.setdefault(f"{each}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
import typer  # noqa: E402
from blocks import Only, home, keep, serve, table  # noqa: E402

from autotune.registry import load_family  # noqa: E402
from autotune.store.recording import read_recording  # noqa: E402
from autotune.tuning.lessons import lessons_for  # noqa: E402
from autotune.tuning.rerun import Ground, Rerun  # noqa: E402

SEEDS = 20
TRIALS = 40
SHARE = 0.95
TIE = 0.05  # of the seconds of the other: less is what asking takes where both need one trial
POINTS = 50  # of time, that a score is the mean over
MARKS = (1, 2, 5, 10, 20, 40)  # trials at which curves are recorded


@dataclass(frozen=True)
class Setting:
    """A sampler and what it knows beforehand."""

    name: str
    sampler: str
    default: bool = False
    lessons: bool = False


SETTINGS = (
    Setting("random", "random"),
    Setting("tpe", "tpe"),
    Setting("cmaes", "cmaes"),
    Setting("model", "model"),
    Setting("tpe, default first", "tpe", default=True),
    Setting("model, default first", "model", default=True),
    Setting("model, default and lessons", "model", default=True, lessons=True),
)

Numbers = npt.NDArray[np.float64]


def expected_best(seconds: Sequence[float]) -> Numbers:
    """Expected best of 1, 2, ... random draws without a repeat; what failed counts as the slowest that worked."""
    finite = np.array([s for s in seconds if np.isfinite(s)])
    times = np.sort(np.concatenate([finite, np.full(len(seconds) - len(finite), finite.max())]))
    total, found = len(times), []
    for draws in range(1, total + 1):
        chance, expected = draws / total, 0.0
        for place, time in enumerate(times):
            expected += chance * time
            left = total - place - 1
            chance = chance * (left - draws + 1) / left if left else 0.0
        found.append(expected)
    return np.array(found)


def score(ground: Ground, runs: Sequence[Rerun], asking: float) -> float:
    """Kernel Tuner's score of some searches, each trial of which takes `asking` seconds besides."""
    outcomes = list(ground.outcomes.values())
    curve, cost = expected_best([seconds for seconds, _ in outcomes]), fmean(cost for _, cost in outcomes)
    times = sorted(seconds for seconds, _ in outcomes if np.isfinite(seconds))
    middle = times[len(times) // 2]
    draws = int(np.argmax(curve <= middle - SHARE * (middle - ground.best))) + 1
    grid = np.linspace(0, draws * cost, POINTS + 1)[1:]
    baseline = curve[np.clip((grid / cost).astype(int), 1, len(curve)) - 1]  # a trial counts when it has ended
    found = np.mean([best_at(run, grid, asking, baseline) for run in runs], axis=0)
    return float(np.mean((baseline - found) / np.maximum(baseline - ground.best, 1e-12)))


def best_at(run: Rerun, grid: Numbers, asking: float, before: Numbers) -> Numbers:
    """Best of a search at some times; before its first trial has ended, that of the baseline."""
    ends = np.cumsum(np.array(run.costs) + asking)
    places = np.searchsorted(ends, grid, side="right") - 1
    return np.where(places >= 0, np.array(run.bests)[np.maximum(places, 0)], before)


def measure(only: Only = "", seeds: int = SEEDS) -> None:
    """Replay every setting on every recorded space of this machine."""
    recordings = {path.stem: read_recording(path) for path in sorted((home() / "spaces").glob("*.xz"))}
    for name, recording in recordings.items():
        if only not in name:
            continue
        ground, others = Ground.of(recording), [other for key, other in recordings.items() if key != name]
        lessons = lessons_for(load_family(recording.family), others)
        found: dict[str, Any] = {}
        for setting in SETTINGS:
            start = process_time()
            first = recording.default if setting.default else None
            given = lessons if setting.lessons else ()
            runs = [
                ground.rerun(setting.sampler, s, TRIALS, first=first, lessons=given, until=ground.best)
                for s in range(seeds)
            ]
            asking = (process_time() - start) / sum(len(run.seconds) for run in runs)
            found[setting.name] = describe(ground, runs, asking)
        near = sum(seconds <= ground.best / SHARE for seconds, _ in ground.outcomes.values())
        about = {"payload": recording.payload, "family": recording.family, "seeds": seeds}
        keep("samplers", name, {**about, "configs": len(ground.outcomes), "near": near, "settings": found})
        typer.echo(f"{name}: " + ", ".join(f"{key} {fmean(each['trials']):.1f}" for key, each in found.items()))


def describe(ground: Ground, runs: Sequence[Rerun], asking: float) -> dict[str, Any]:
    """What is recorded of a setting: a number a seed, and a curve."""
    wanted = ground.best / SHARE
    reached = [[ground.best / run.bests[min(mark, len(run.bests)) - 1] for mark in MARKS] for run in runs]
    return {
        "trials": [run.trials_to(wanted) for run in runs],
        "seconds": [round(run.cost_to(wanted) + asking * run.trials_to(wanted), 3) for run in runs],
        "score": round(score(ground, runs, asking), 4),
        "asking_seconds": round(asking, 5),
        "reached": [round(fmean(column), 4) for column in zip(*reached, strict=True)],
        "reached_error": [round(float(np.std(column)) / len(runs) ** 0.5, 4) for column in zip(*reached, strict=True)],
    }


def part(folder: Path) -> str:
    """The tables of a machine: trials to 95 % of the best by space, then each setting on all of them."""
    spaces = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    names = list(next(iter(spaces.values()))["settings"])
    rows = [
        f"| {name.replace('_', ' ')} | {found['near']} of {found['configs']} | "
        + " | ".join(spread(found["settings"][each]["trials"]) for each in names)
        + " |"
        for name, found in spaces.items()
    ]
    seeds = next(iter(spaces.values()))["seeds"]
    said = f"In `results/{folder.parent.name}`, {len(spaces)} spaces, {seeds} seeds, at most {TRIALS} trials.\n\n"
    by_space = table(("trials to 95 %: median [p90]", "configs within 5 %", *names), rows)
    head = ("all spaces", "trials, mean", "seconds, mean", "over random", "score", "asking", "against tpe, alike begun")
    return f"\n{said}{by_space}\n{table(head, [overall(each, list(spaces.values())) for each in names])}"


def spread(trials: Sequence[int]) -> str:
    """Median and 90th percentile; what no search reached is beyond its last trial."""
    found = np.quantile(trials, (0.5, 0.9), method="higher")
    shown = [f"{each:.0f}" if each <= TRIALS else f">{TRIALS}" for each in found]
    return f"{shown[0]} [{shown[1]}]"


def overall(name: str, spaces: Sequence[dict[str, Any]]) -> str:
    """The row of a setting."""
    mine = [space["settings"][name] for space in spaces]
    drawn = [space["settings"]["random"] for space in spaces]
    gains = [fmean(theirs["seconds"]) / fmean(each["seconds"]) for each, theirs in zip(mine, drawn, strict=True)]
    rival = "tpe, default first" if "default" in name else "tpe"
    verdicts = [verdict(space["settings"][name]["seconds"], space["settings"][rival]["seconds"]) for space in spaces]
    counted = ", ".join(f"{verdicts.count(each)} {each}" for each in ("faster", "slower", "alike"))
    cells = (
        name,
        f"{fmean(fmean(each['trials']) for each in mine):.1f}",
        f"{fmean(fmean(each['seconds']) for each in mine):.2f}",
        f"{float(np.exp(np.mean(np.log(gains)))):.2f} x",
        f"{fmean(each['score'] for each in mine):.2f}",
        f"{1e3 * fmean(each['asking_seconds'] for each in mine):.1f} ms",
        "-" if name == rival else counted,
    )
    return f"| {' | '.join(cells)} |"


def verdict(mine: Sequence[float], theirs: Sequence[float]) -> str:
    """Whether seconds are fewer beyond `TIE` and the noise of the seeds: a 95 % interval of the mean difference."""
    apart = np.array(mine) - np.array(theirs)
    noise = max(1.96 * float(apart.std(ddof=1)) / len(apart) ** 0.5, TIE * fmean(theirs))
    return "alike" if abs(apart.mean()) <= noise else "faster" if apart.mean() < 0 else "slower"


if __name__ == "__main__":
    serve("samplers", measure, part)
