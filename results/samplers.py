"""Samplers on recorded spaces: every one replayed (`measure`), and the table (`render`).

A search asks as it does in `tune` and gets what was recorded; its time is what its trials took to compile, verify
and measure then, and what asking takes now. One that begins anywhere knows nothing; others begin with the family's
default. Transfer data are the recordings of all other spaces of this machine. The score is Kernel Tuner's: how far the
best so far is between what random draws are expected to have then and the best there is, on average over the time that
random draws need for 95 % of the way from the median (Willemsen et al., A Methodology for Comparing Optimization
Algorithms for Auto-Tuning, FGCS 2024). Twelve minutes of one core; `--only` measures some spaces.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Annotated, Any

for each in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is loaded: its threads would count as time of the sampler
    os.environ.setdefault(f"{each}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
import typer  # noqa: E402
from blocks import ROOT, Block, Only, keep_all, load, read, table  # noqa: E402

from autotune.contrib.spaces.rerun import Ground, Rerun  # noqa: E402
from autotune.contrib.spaces.transfer import transfer_for  # noqa: E402
from autotune.registry import load_family  # noqa: E402
from autotune.store.recording import Recording, read_recording  # noqa: E402
from autotune.tuning.samplers.sampler import PriorTrial  # noqa: E402

SEEDS = 50
TRIALS = 40
SHARE, NEARER = 0.95, 0.99
HARD = 0.15  # of a space's configs are near its best, or fewer: such are worth a search
TIE = 0.05  # of the seconds of the other: less is what asking takes where both need one trial
POINTS = 50  # of time, that a score is the mean over
MARKS = (1, 2, 5, 10, 20, 40)  # trials at which curves are recorded


@dataclass(frozen=True)
class Setting:
    """A sampler and what it knows beforehand."""

    name: str
    sampler: str
    default: bool = False
    transfer: bool = False


SETTINGS = (
    Setting("random", "random"),
    Setting("tpe", "tpe"),
    Setting("cmaes", "cmaes"),
    Setting("auto", "auto"),
    Setting("tpe, default first", "tpe", default=True),
    Setting("auto, default first", "auto", default=True),
    Setting("auto, default and transfer data", "auto", default=True, transfer=True),
)

# Measured when it is asked for, `measure --setting GPSampler --seeds 10`: it needs PyTorch, and 50 ms and more an ask.
SLOW = (Setting("GPSampler", "GPSampler"),)
TRANSFER = "auto, default and transfer data"
VERSUS = tuple(f"against tpe, alike begun: {each}" for each in ("seconds to 95 %", "to 99 %", "score"))

Numbers = npt.NDArray[np.float64]


def expected_best(seconds: Sequence[float]) -> Numbers:
    """Expected best of 1, 2, ... random draws without a repeat; what failed counts as the slowest that worked."""
    finite = np.array([s for s in seconds if np.isfinite(s)])
    times = np.sort(np.concatenate([finite, np.full(len(seconds) - len(finite), finite.max())]))
    total, found = len(times), []
    for draws in range(1, total + 1):
        chance, expected = draws / total, 0.0
        for rank, time in enumerate(times):
            expected += chance * time
            left = total - rank - 1
            chance = chance * (left - draws + 1) / left if left else 0.0
        found.append(expected)
    return np.array(found)


def scores(ground: Ground, runs: Sequence[Rerun], asking: float) -> Numbers:
    """Kernel Tuner's scores of searches, each trial of which takes `asking` seconds besides."""
    outcomes = list(ground.outcomes.values())
    curve, cost = expected_best([seconds for seconds, _ in outcomes]), fmean(cost for _, cost in outcomes)
    times = sorted(seconds for seconds, _ in outcomes if np.isfinite(seconds))
    middle = times[len(times) // 2]
    draws = int(np.argmax(curve <= middle - SHARE * (middle - ground.best))) + 1
    grid = np.linspace(0, draws * cost, POINTS + 1)[1:]
    baseline = curve[np.clip((grid / cost).astype(int), 1, len(curve)) - 1]  # a trial counts when it has ended
    found = np.array([best_at(run, grid, asking, baseline) for run in runs])
    return np.asarray(np.mean((baseline - found) / np.maximum(baseline - ground.best, 1e-12), axis=1), dtype=np.float64)


def best_at(run: Rerun, grid: Numbers, asking: float, before: Numbers) -> Numbers:
    """Best of a search at some times; before its first trial has ended, that of the baseline."""
    ends = np.cumsum(np.array(run.costs) + asking)
    indices = np.searchsorted(ends, grid, side="right") - 1
    return np.where(indices >= 0, np.array(run.bests)[np.maximum(indices, 0)], before)


def measure(
    only: Only = "",
    seeds: int = SEEDS,
    setting: Annotated[str, typer.Option(help="Only this one; what is recorded of others stays.")] = "",
) -> None:
    """Replay settings on every recorded space, whichever machine recorded it."""
    wanted = [each for each in (*SETTINGS, *SLOW) if each.name == setting] if setting else SETTINGS
    for folder in sorted(ROOT.glob("*/spaces")):
        recordings = {path.stem: read_recording(path) for path in sorted(folder.glob("*.xz"))}
        for name, recording in recordings.items():
            if only in name:
                others = [other for key, other in recordings.items() if key != name]
                target = folder.parent / "samplers.json"
                before = read(target, name).get("settings", {})
                found = replay(recording, transfer_for(load_family(recording.family), others), wanted, seeds)
                keep_all(target, {**load(target), name: {**found, "settings": {**before, **found["settings"]}}})
                means = (f"{key} {fmean(each['trials']):.1f}" for key, each in found["settings"].items())
                typer.echo(f"{name}: {', '.join(means)}")


def replay(
    recording: Recording, transfer: Sequence[PriorTrial], wanted: Sequence[Setting], seeds: int
) -> dict[str, Any]:
    """What settings find on a recorded space."""
    ground = Ground.of(recording)
    found: dict[str, Any] = {}
    for setting in wanted:
        start = process_time()
        first = recording.default if setting.default else None
        given = transfer if setting.transfer else ()
        runs = [
            ground.rerun(setting.sampler, s, TRIALS, first=first, transfer=given, until=ground.best)
            for s in range(seeds)
        ]
        asking = (process_time() - start) / sum(len(run.seconds) for run in runs)
        found[setting.name] = describe(ground, runs, asking)
    near = sum(seconds <= ground.best / SHARE for seconds, _ in ground.outcomes.values())
    gain = ground.outcomes[recording.values_of(recording.default)][0] / ground.best
    about = {"payload": recording.payload, "family": recording.family, "gain": round(gain, 4)}
    return {**about, "configs": len(ground.outcomes), "near": near, "settings": found}


def describe(ground: Ground, runs: Sequence[Rerun], asking: float) -> dict[str, Any]:
    """What is recorded of a setting: a number a seed, and a curve."""
    reached = [[ground.best / run.bests[min(mark, len(run.bests)) - 1] for mark in MARKS] for run in runs]
    found: dict[str, Any] = {}
    for end, share in (("", SHARE), ("_nearer", NEARER)):
        found["trials" + end] = [run.trials_to(ground.best / share) for run in runs]
        costs = [run.cost_to(ground.best / share) + asking * run.trials_to(ground.best / share) for run in runs]
        found["seconds" + end] = [round(cost, 3) for cost in costs]
    return found | {
        "scores": [round(each, 3) for each in scores(ground, runs, asking).tolist()],
        "asking_seconds": round(asking, 5),
        "reached": [round(fmean(column), 4) for column in zip(*reached, strict=True)],
        "reached_error": [round(float(np.std(column)) / len(runs) ** 0.5, 4) for column in zip(*reached, strict=True)],
    }


def part(path: Path) -> str:
    """The tables of a machine: trials to 95 % of the best by space, then each setting on all of them."""
    spaces = load(path)
    names = list(next(iter(spaces.values()))["settings"])
    rows = [
        f"| {name.replace('_', ' ')} | {found['near']} of {found['configs']} | "
        + " | ".join(spread(found["settings"][each]["trials"]) for each in names)
        + " |"
        for name, found in spaces.items()
    ]
    seeds = {len(space["settings"][each]["trials"]) for space in spaces.values() for each in names}
    fewer = f" ({min(seeds)} of what is slow to ask)" if len(seeds) > 1 else ""
    where = f"`results/{path.parent.name}`, {len(spaces)} spaces, {max(seeds)} seeds{fewer}"
    summary = f"In {where}, at most {TRIALS} trials.\n\n"
    by_space = table(("trials to 95 %: median [p90]", "configs within 5 %", *names), rows)
    head = ("all spaces", "trials, mean", "seconds, mean", "over random", "score", "asking", *VERSUS)
    every = table(head, [overall(each, list(spaces.values())) for each in names])
    aims = table(("aim", "", "tpe", "auto", "wanted"), targets(list(spaces.values())))
    return f"\n{summary}{by_space}\n{every}\n{aims}"


def targets(spaces: Sequence[dict[str, Any]]) -> list[str]:
    """What was aimed at, on all spaces and on those in which few configs are near the best."""
    hard = [space for space in spaces if space["near"] <= HARD * space["configs"]]
    found = []
    for where, some in (("all", spaces), (f"{len(hard)} hard", hard)):
        for what, begun, wanted in (
            ("trials, cold, median [p90]", ("tpe", "auto"), "12 [25]"),
            ("trials, default and records", ("tpe, default first", TRANSFER), "3 [10]"),
        ):
            cells = [spread([t for space in some for t in space["settings"][each]["trials"]]) for each in begun]
            found.append(row(what, where, *cells, wanted))
        for what, begun in (
            ("time of random draws over its, cold", ("tpe", "auto")),
            ("the same, default and records", ("tpe, default first", TRANSFER)),
        ):
            found.append(row(what, where, *(f"{over_random(each, some):.2f} x" for each in begun), "5 x"))
        bound = float(np.exp(np.mean([np.log(fmean(space["settings"]["random"]["trials"])) for space in some])))
        found.append(row("the same, if every search needed one trial", where, "", f"{bound:.2f} x", ""))
    gain = float(np.exp(np.mean(np.log([space["gain"] for space in spaces]))))
    return [*found, row("best of a part over the default, mean of ratios", "all", "", f"{gain:.2f} x", "1.15 x")]


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def over_random(name: str, spaces: Sequence[dict[str, Any]]) -> float:
    """Seconds to 95 % of the best that random draws take over those of a setting, geometric mean."""
    means = [[fmean(space["settings"][each]["seconds"]) for each in ("random", name)] for space in spaces]
    return float(np.exp(np.mean([np.log(drawn / mine) for drawn, mine in means])))


def spread(trials: Sequence[int]) -> str:
    """Median and 90th percentile; what no search reached is beyond its last trial."""
    found = np.quantile(trials, (0.5, 0.9), method="higher")
    shown = [f"{each:.0f}" if each <= TRIALS else f">{TRIALS}" for each in found]
    return f"{shown[0]} [{shown[1]}]"


def overall(name: str, spaces: Sequence[dict[str, Any]]) -> str:
    """The row of a setting."""
    mine = [space["settings"][name] for space in spaces]
    rival = "tpe, default first" if "default" in name else "tpe"
    return row(
        name,
        f"{fmean(fmean(each['trials']) for each in mine):.1f}",
        f"{fmean(fmean(each['seconds']) for each in mine):.2f}",
        f"{over_random(name, spaces):.2f} x",
        f"{fmean(fmean(each['scores']) for each in mine):.2f}",
        f"{1e3 * fmean(each['asking_seconds'] for each in mine):.1f} ms",
        *(count(spaces, name, rival, key) if name != rival else "-" for key in ("seconds", "seconds_nearer", "scores")),
    )


def count(spaces: Sequence[dict[str, Any]], name: str, rival: str, key: str) -> str:
    """On how many spaces a setting is better than another one, worse, or alike."""
    verdicts = [verdict(space["settings"][name][key], space["settings"][rival][key], key) for space in spaces]
    return ", ".join(f"{verdicts.count(each)} {each}" for each in ("better", "worse", "alike"))


def verdict(mine: Sequence[float], theirs: Sequence[float], key: str) -> str:
    """Whether one is better beyond a 95 % interval of the mean difference of the seeds, and seconds beyond `TIE`."""
    pairs = np.array(list(zip(mine, theirs, strict=False)))  # of the seeds that both have
    apart = (pairs[:, 1] - pairs[:, 0]) * (-1 if key == "scores" else 1)
    noise = 1.96 * float(apart.std(ddof=1)) / len(apart) ** 0.5
    noise = max(noise, TIE * fmean(theirs)) if key != "scores" else noise
    return "alike" if abs(apart.mean()) <= noise else "better" if apart.mean() > 0 else "worse"


BLOCK = Block("samplers", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
