"""Constants of the analytic model of contractions, fitted to recordings of all machines but one (`measure`).

Recorded are spaces (`results/spaces.py`), and forty configs of each product of `results/targets.py`. One machine after
the other is left out: constants are fitted to the others, and the config that they choose on it is looked up in what it
recorded. The loss is the mean logarithm of its time over the best's, and a little for every factor that a constant is
changed by. Of a machine of which only winners and defaults are recorded (`results/comparisons.py`) constants cannot be
fitted; how good the default was there is shown beside it. `render` writes the table.
"""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import typer
from blocks import ROOT, Block, keep_all, load, table

from autotune.contrib.spaces.rerun import Ground
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.registry import load_family
from autotune.store.recording import read_recording
from autotune.tuning.stages.warm_start import fit
from autotune.worker.loading.reading import open_payload, partition
from schedules import matmul_model
from schedules.matmul_model import RegisterTile, Shares, flow, score
from schedules.matmul_space import contraction_of

TARGET = ROOT / "fit.json"
CONSTANTS = (
    "FMAS_IN_FLIGHT",
    "ENOUGH_FMAS_PER_LOAD",
    "COST_OF_LEFT_ROWS",
    "L2_BYTES_A_CYCLE",
    "BEYOND_L2_BYTES_A_CYCLE",
)
SHARES = tuple(f"{kind} {part}" for kind in ("stored", "copied") for part in ("strip", "block"))
TRIED = 250  # sets of constants
STEP = 0.5  # standard deviation of the logarithm that one is changed by
STAY = 0.01  # of loss for a constant that is changed by a factor of e
WITHIN = 1.10  # of the best
WORST = 10.0  # times as long: what failed

Factors = Mapping[str, float]


@dataclass(frozen=True)
class RecordedTask:
    """What a machine recorded of a task.

    Attributes:
        name: Name of the task.
        chosen: Gives the time over the best's of what the model chooses now.
    """

    name: str
    chosen: Callable[[], float]


def measure(seed: int = 0) -> None:
    """Leave each machine out in turn."""
    machines = {name: tasks for name, tasks in recorded().items() if tasks}
    found: dict[str, Any] = {}
    for out, left in machines.items():
        others = [task for name, tasks in machines.items() if name != out for task in tasks]
        factors = fitted(others, seed)
        by_hand, changed = times(left, {}), times(left, factors)
        found[out] = {
            "factors": {name: round(factor, 3) for name, factor in factors.items()},
            "fitted_to": {"tasks": len(others), "by_hand": loss(others, {}), "fitted": loss(others, factors)},
            "tasks": {task.name: [a, b] for task, a, b in zip(left, by_hand, changed, strict=True)},
        }
        typer.echo(f"{out}: {share(by_hand):.0%} by hand, {share(changed):.0%} fitted to others, {factors}")
    everyone = [task for tasks in machines.values() for task in tasks]
    factors = fitted(everyone, seed)
    found["all"] = {"factors": factors, "by_hand": loss(everyone, {}), "fitted": loss(everyone, factors)}
    keep_all(TARGET, {"left_out": found, "compared": dict(compared())})


def recorded() -> dict[str, list[RecordedTask]]:
    """What every machine recorded of contractions."""
    found: dict[str, list[RecordedTask]] = {}
    for folder in sorted(path for path in ROOT.iterdir() if path.is_dir()):
        tasks = [space_task(path) for path in sorted(folder.glob("spaces/*.xz"))]
        tasks += [drawn_task(name, each) for name, each in load(folder / "targets.json").items() if "matmul" in name]
        found[folder.name] = [task for task in tasks if task is not None]
    return found


def space_task(path: Path) -> RecordedTask | None:
    """A recorded space: the model chooses among its configs; `None` for tasks without a contraction.

    Of a group the default of the whole space, or the nearest that is recorded.
    """
    recording = read_recording(path)
    if not recording.task.contractions:
        return None
    ground, family, space = Ground.of(recording), load_family(recording.family), recording.space

    def chosen() -> float:
        if recording.family == "matmul":
            config = matmul_model.default_config(contraction_of(recording.task), space, recording.machine)
        else:
            config = fit(family.default(recording.task, recording.machine), space) or recording.default
        return min(ground.outcomes[recording.values_of(config)][0] / ground.best, WORST)

    return RecordedTask(path.stem.replace("_", " "), chosen)


def drawn_task(name: str, data: Mapping[str, Any]) -> RecordedTask:
    """Configs of a product that were drawn at random: the choice is that with the highest score, a mean of equals."""
    machine = Machine(**data["machine"])
    (task,) = partition(open_payload(spec_of(name))).tasks
    c: Contraction = contraction_of(task)
    best = min(row["seconds"] for row in data["rows"])

    def chosen() -> float:
        rated = [(rate(c, row["config"], machine), row["seconds"]) for row in data["rows"]]
        most = max(rating for rating, _ in rated)
        return fmean(seconds for rating, seconds in rated if rating >= most * (1 - 1e-9)) / best

    return RecordedTask(name.replace("_", " "), chosen)


def spec_of(stem: str) -> str:
    """The payload that a file is of.

    Example: matmul_m128_n768_k3072_constant_b1 is matmul,m=128,n=768,k=3072,constant_b=1.
    """
    name = "batch_matmul" if stem.startswith("batch_matmul") else "matmul"
    words = stem.removeprefix(name + "_").replace("constant_b", "constant-b").replace("transpose_b", "transpose-b")
    options = []
    for word in words.split("_"):
        digits = len(word) - len(word.rstrip("0123456789"))
        options.append(f"{word[:-digits].replace('-', '_')}={word[-digits:]}")
    return ",".join([name, *options])


def rate(c: Contraction, config: Mapping[str, Any], machine: Machine) -> float:
    """How good the model holds a config to be."""
    tile = RegisterTile(int(config["register_m"]), int(config["register_n"]), int(config["vector_width"]))
    return score(c, tile, machine) * flow(c, config, machine)


def constants(factors: Factors) -> dict[str, Any]:
    """The model's constants, each times its factor."""
    found: dict[str, Any] = {name: getattr(matmul_model, name) * factors.get(name, 1.0) for name in CONSTANTS}
    shares = {}
    for (stored, tall), plain in matmul_model.SHARES.items():
        kind = "stored" if stored else "copied"
        strip, block = (factors.get(f"{kind} {part}", 1.0) for part in ("strip", "block"))
        shares[stored, tall] = Shares(plain.strip * strip, plain.block * block)
    return found | {"SHARES": shares}


def times(tasks: Sequence[RecordedTask], factors: Factors) -> list[float]:
    """Times over the best's of what the model chooses with such constants."""
    with patch.multiple(matmul_model, **constants(factors)):
        return [round(task.chosen(), 4) for task in tasks]


def loss(tasks: Sequence[RecordedTask], factors: Factors) -> float:
    """Mean logarithm of the times over the best's, and a little for what is changed."""
    away = sum(abs(math.log(factor)) for factor in factors.values())
    return round(fmean(math.log(time) for time in times(tasks, factors)) + STAY * away, 5)


def fitted(tasks: Sequence[RecordedTask], seed: int) -> Factors:
    """Factors with the least loss that a random walk from today's finds, one constant at a time."""
    rng, names = random.Random(seed), (*CONSTANTS, *SHARES)
    best: dict[str, float] = {}
    least = loss(tasks, best)
    for _ in range(TRIED):
        name = rng.choice(names)
        tried = {**best, name: best.get(name, 1.0) * math.exp(rng.gauss(0, STEP))}
        found = loss(tasks, tried)
        if found < least:
            best, least = tried, found
    return best


def compared() -> Iterator[tuple[str, list[float]]]:
    """Times of the default over those of the winner, by machine, as `autotune compare` measured them."""
    for folder in sorted(ROOT.glob("*/comparisons")):
        found = []
        for path in sorted(folder.glob("*.json")):
            rows = {row["name"]: row["seconds"] for row in json.loads(path.read_text())["rows"]}
            if rows.get("default") and rows.get("best"):
                found.append(round(rows["default"] / rows["best"], 4))
        yield path.parent.name, found


def share(found: Sequence[float]) -> float:
    """Share of times that are within 10 % of the best."""
    return sum(time <= WITHIN for time in found) / len(found)


def part(path: Path) -> str:
    """The table."""
    data = load(path)
    rows, changed = [], []
    for name, each in data["left_out"].items():
        if name == "all":
            continue
        by_hand, others = zip(*each["tasks"].values(), strict=True)
        count = len(by_hand)
        rows.append(
            f"| `{name}` | {count} | {share(by_hand):.0%}, {fmean(by_hand):.3f} | {each['fitted_to']['tasks']} | "
            f"{share(others):.0%}, {fmean(others):.3f} |"
        )
        moved = ", ".join(f"{key} x {factor:.2f}" for key, factor in each["factors"].items())
        changed.append(f"Without `{name}`: {moved or 'nothing is changed'}.")
    for name, ratios in data["compared"].items():
        rows.append(
            f"| `{name}`, default beside winner | {len(ratios)} | {share(ratios):.0%}, {fmean(ratios):.3f} | | |"
        )
    head = (
        "machine left out",
        "tasks",
        "constants by hand: within 10 %, mean",
        "fitted to tasks of others",
        "the same",
    )
    return "\n" + table(head, rows) + "\n" + " ".join(changed) + "\n"


BLOCK = Block("fit", part, measure, TARGET.name)


if __name__ == "__main__":
    BLOCK.serve()
