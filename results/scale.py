"""How far a cluster goes, in docs/results.md: measure what a trial costs everywhere (`measure`), simulate, `render`.

What a trial takes on a slot is from the recorded spaces of this machine, or of another one where it has none. What the
tuner, the database and Dask take of it is measured by the command, here: a sweep of nano, a PostgreSQL server of its
own, and a scheduler with a worker that does nothing. Searches of several trials at once are run again on the recorded
spaces. A simulation (`fleet.py`) puts this together; what `cluster.py` measured with one and two slots checks it.
"""

import os
import random
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

for each in ("OPENBLAS", "OMP", "MKL"):  # before NumPy is loaded: its threads would count as time of the sampler
    os.environ.setdefault(f"{each}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from blocks import ROOT, Block, file_of, home, keep_all, load, table  # noqa: E402
from fleet import Fleet, Parts, Run  # noqa: E402
from large_models import large_models  # noqa: E402
from scale_parts import SHARE, costs_of, measure_parts, search_again  # noqa: E402

from autotune.contrib.spaces.rerun import Ground  # noqa: E402
from autotune.core.host.machine import this_machine  # noqa: E402
from autotune.core.payload import Payload  # noqa: E402
from autotune.store.recording import Recording, read_recording  # noqa: E402
from autotune.worker.bench.measure import LEAST_SAMPLES  # noqa: E402
from autotune.worker.loading.reading import partition  # noqa: E402

NAME = "scale.json"
SLOTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
AT_ONCE = (1, 2, 4, 8, 16, 32)  # trials under way in one search
SEEDS = 20  # of searches
SWEEP = 20  # simulated trials of a slot, and at least as many as one search of each kind
SEARCHES = 12  # that trials under way are spread over
PLANNED, PLAN_SLOTS = 1000, (1, 16, 128)  # trials of a task; slots of the plans
BESIDE = (
    ("the tuner", "own"),
    ("sending it off", "submit"),
    ("the record in PostgreSQL", "record"),
    ("Dask, of many at once,", "carry"),
)
BUSY = ("search", "database", "scheduler")  # whose share of the time is shown
HEAD = ("slots", "trials an hour", "slots idle", "busiest", *BUSY)
HEAD_SEARCH = ("under way", "trials to the best, over those of one", "seconds of asking")
HEAD_CHECK = ("slots", "simulated", "measured", "apart")
HEAD_PLAN = ("model", "tasks", "trials", "seconds a trial, mean", *(f"hours with {slots}" for slots in PLAN_SLOTS))


def measure(seeds: int = SEEDS) -> None:
    """Measure, search again and simulate; some five minutes."""
    folder = home() / "spaces"
    if not folder.is_dir():  # of another machine
        folder = min(ROOT.glob("*/spaces"))
    recordings = {path.stem: read_recording(path) for path in sorted(folder.glob("*.xz"))}
    grounds = [Ground.of(recording) for recording in recordings.values()]
    searches = {count: search_again(grounds, count, seeds) for count in AT_ONCE}
    parts = measure_parts(recordings["matmul_512_stored"], searches)
    costs = [cost for each in recordings.values() for cost in costs_of(each)]
    found = {
        "machine": asdict(this_machine()),
        "load": os.getloadavg()[0],
        "spaces": folder.parent.name,
        "parts": asdict(parts),
        "mean_cost": fmean(costs),
        "searches": {count: {name: each[name] for name in ("ratio", "asking")} for count, each in searches.items()},
        "runs": [asdict(simulate(slots, costs, parts)) for slots in SLOTS],
        "checks": check(parts),
        "plans": [plan(name, recordings, parts, *model) for name, model in large_models().items()],
    }
    target = file_of(NAME)
    keep_all(target, found)
    print(part(target))


def simulate(slots: int, costs: list[float], parts: Parts, trials: int = 0) -> Run:
    """A long sweep of trials that cost what recorded ones do."""
    draw = random.Random(f"slots {slots}")
    count = trials or max(SWEEP * slots, 2000)
    return Fleet(slots, draw.choices(costs, k=count), parts, SEARCHES).run()


def check(parts: Parts) -> list[dict[str, Any]]:
    """What was measured with one and two slots, simulated: its own costs, its own time of the tuner."""
    times, found = load(file_of("cluster")).get("times"), []
    for slots, way in ((1, "one"), (2, "two")) if times else ():
        runs = [pair[way] for pair in times["pairs"]]
        simulated = []
        for run in runs:
            here = replace(parts, own=run["overhead_seconds"] / run["evaluated"], record=0.0)  # part of its own time
            if slots == 1:  # no Dask
                here = replace(here, submit=0.0, carry=0.0, way=0.0)
            simulated.append(Fleet(slots, run["costs"], here, SEARCHES).run().seconds)
        measured = [run["search_seconds"] for run in runs]
        found.append({"slots": slots, "simulated": median(simulated), "measured": median(measured)})
    return found


def plan(name: str, recordings: dict[str, Recording], parts: Parts, payload: Payload, layers: int) -> dict[str, Any]:
    """A sweep of a model: a trial costs what a recorded one does, and one call that is verified and the least samples.

    Args:
        name: Name of the model.
        recordings: Recorded spaces by name.
        parts: What everything beside a trial takes.
        payload: The model.
        layers: Times that it runs a layer that its text has once.
    """
    tasks = partition(payload).tasks
    rate = rate_of(recordings["matmul_512_stored"], flops=True)
    band = rate_of(recordings["layer_norm_128x768"], flops=False)
    recorded = [cost for each in recordings.values() for cost in costs_of(each)]
    draw, costs = random.Random(name), []
    for task in tasks:
        call = max(float(task.payload.flops) / rate, float(task.payload.bytes) / band)
        costs += [cost + (1 + LEAST_SAMPLES) * call for cost in draw.choices(recorded, k=PLANNED)]
    draw.shuffle(costs)
    hours = [Fleet(slots, costs, parts, len(tasks)).run().seconds / 3600 for slots in PLAN_SLOTS]
    listed = [{"tag": task.tag, "count": task.count * layers, "flops": float(task.payload.flops)} for task in tasks]
    return {"name": name, "tasks": listed, "trials": len(costs), "mean_cost": fmean(costs), "hours": hours}


def rate_of(recording: Recording, *, flops: bool) -> float:
    """Operations or bytes a second of the median config of a recorded space."""
    size = recording.task.payload.flops if flops else recording.task.payload.bytes
    return float(size) / float(np.median([trial.seconds for trial in recording.trials if trial.seconds]))


def part(path: Path) -> str:
    """A machine's tables."""
    found = load(path)
    machine, parts = found["machine"], found["parts"]
    beside = ", ".join(f"{name} {milli(parts[key])}" for name, key in BESIDE)
    text = (
        f"\nIn `results/{path.parent.name}`: {machine['cpu']}, load {found['load']:.1f} in the end. A trial takes "
        f"{found['mean_cost']:.2f} s on its slot, mean of the spaces in `results/{found['spaces']}`, and beside that: "
        f"{beside}. Simulated, {SEARCHES} searches at once:\n\n"
    )
    rows = list(map(run_row, found["runs"]))
    return text + table(HEAD, rows) + search_part(found) + check_part(found) + plan_part(found)


def milli(seconds: float) -> str:
    """A short time."""
    return f"{1e3 * seconds:.1f} ms"


def run_row(run: dict[str, Any]) -> str:
    """A cluster of one size."""
    shares = run["shares"]
    most = max(shares, key=lambda name: shares[name])
    numbers = (f"{run['slots']:,}", f"{3600 * run['trials'] / run['seconds']:,.0f}", f"{1 - shares['slots']:.0%}", most)
    return f"| {' | '.join(numbers)} | {' | '.join(f'{shares[name]:.0%}' for name in BUSY)} |"


def search_part(found: dict[str, Any]) -> str:
    """What searches of several at once need."""
    rows = [f"| {n} | {each['ratio']:.2f} | {milli(each['asking'])} |" for n, each in found["searches"].items()]
    text = f"\nTrials under way in one search, and what it needs to come within {1 - SHARE:.0%} of the best, mean of "
    return text + "all recorded spaces and seeds, begun anywhere:\n\n" + table(HEAD_SEARCH, rows)


def check_part(found: dict[str, Any]) -> str:
    """What was measured beside what is simulated."""
    rows = [
        f"| {each['slots']} | {each['simulated']:.1f} s | {each['measured']:.1f} s "
        f"| {each['simulated'] / each['measured'] - 1:+.0%} |"
        for each in found["checks"]
    ]
    text = "\nThe search of nano, simulated with its own costs and measured by `results/cluster.py`, medians:\n\n"
    return text + table(HEAD_CHECK, rows) if rows else ""


def plan_part(found: dict[str, Any]) -> str:
    """Sweeps that nobody has run yet."""
    rows = []
    for each in found["plans"]:
        hours = " | ".join(f"{hour:,.1f}" for hour in each["hours"])
        numbers = (each["name"], str(len(each["tasks"])), f"{each['trials']:,}", f"{each['mean_cost']:.1f}")
        rows.append(f"| {' | '.join(numbers)} | {hours} |")
    return f"\nPlanned, {PLANNED:,} trials a task, on machines like this one:\n\n" + table(HEAD_PLAN, rows)


BLOCK = Block("scale", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
