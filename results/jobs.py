"""Several jobs in docs/results.md: sweeps with one and with two, and their winners raced (`measure`), and the table.

Each seed searches a payload from an empty store with one job and with several, as `autotune tune --cold --jobs N` does.
Then the fastest trials of both race each other, all interleaved in one process, and nothing else runs: what is compared
is the time of the best of one and of the best of the other, over all tasks. Takes fifteen minutes on two quiet cores;
`--only PAYLOAD --begin SEED` goes on where it was stopped.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, Only, file_of, keep, read, table

from autotune.core.bench import Bench
from autotune.core.evaluator import Effort, Slots
from autotune.core.stats import quiet_time
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.task_search import SEARCH_EFFORT, TaskSearch
from autotune.tuning.stages.workplace import open_workplace
from autotune.worker.bench.noise import measure_noise
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

PAYLOADS = {"matmul,m=512,n=512,k=512": 60, "nano": 60}  # trials of each
JOBS = 2
SEEDS = 10
FINALISTS = 4  # of each sweep and task
EFFORT = Effort(samples=40, seconds=2.0)
AGAIN = 40  # times that one program is compiled and timed as a trial
SECONDS = 60.0
PAIRS = 2  # A/A comparisons before each sweep
HEAD = (
    "payload",
    "trials a minute, 1 job",
    f"{JOBS} jobs",
    "more",
    f"winner of {JOBS} jobs, over that of 1",
    "A/A floor",
    "one program again, 1 job",
    f"{JOBS} jobs",
    "its time beside a compilation",
)


def measure(only: Only = "", seeds: int = SEEDS, begin: int = 0) -> None:
    """Search every payload with one job and with several, and race what they found; seeds from `begin` on."""
    for spec, trials in PAYLOADS.items():
        if only not in spec:
            continue
        found: dict[str, Any] = {"trials": trials, "jobs": JOBS, "rates": {"1": [], str(JOBS): []}, "floors": []}
        found |= {"winners": [], "again": {}} | (read(file_of("jobs"), spec) if begin else {})
        for seed in range(begin, seeds):
            swept = {jobs: sweep(spec, trials, seed, jobs, found) for jobs in alternate((1, JOBS), seed)}
            found["winners"].append(race(swept[1], swept[JOBS]))
            keep("jobs", spec, found)
            typer.echo(row(spec, found))


def alternate(jobs: tuple[int, int], seed: int) -> tuple[int, ...]:
    """Who is first, by turns."""
    return jobs if seed % 2 == 0 else jobs[::-1]


def sweep(spec: str, trials: int, seed: int, jobs: int, found: dict[str, Any]) -> list[TaskSearch]:
    """Search a payload; rate and floor, and of the first seed what one program takes again and again, are noted."""
    payload, options = load_payload(spec), TuneOptions(trials=trials, seed=seed, jobs=jobs)
    with (
        TemporaryDirectory() as folder,
        Store.open(Path(folder) / "store.journal") as store,
        open_workplace(1, SECONDS, jobs=jobs) as workplace,
    ):
        searches = open_searches(partition(payload).tasks, setting_of(payload, workplace.machine, store, options))
        found["floors"].append(measure_noise(workplace.machine, workplace.benches()[0], PAIRS))
        with workplace.searchers() as slots:
            ran = run_on_slots(searches, options, slots)
            if seed == 0:
                found["again"][str(jobs)] = again(searches[0], slots)
    found["rates"][str(jobs)].append(60 * ran.evaluated / ran.seconds)
    return searches


def again(search: TaskSearch, slots: Slots) -> list[float]:
    """Seconds a call of a task's best program, as so many trials of it would have them."""
    job = search.job([search.candidate(search.right[0].config)], SEARCH_EFFORT)
    times, begun = list[float](), 0
    while len(times) < AGAIN:
        while begun - len(times) < slots.count() and begun < AGAIN:
            slots.submit(job)
            begun += 1
        _, (evaluation,) = slots.wait()
        times.append(evaluation.samples.normalised if evaluation.samples is not None else inf)
    return times


def race(one: Sequence[TaskSearch], other: Sequence[TaskSearch]) -> float:
    """Time of the best of one search over that of the best of another, over all tasks: above 1 the other is better."""
    with Worker(SECONDS) as worker:
        pairs = [race_task(mine, theirs, worker) for mine, theirs in zip(one, other, strict=True)]
    return sum(mine for mine, _ in pairs) / sum(theirs for _, theirs in pairs)


def race_task(mine: TaskSearch, theirs: TaskSearch, worker: Bench) -> tuple[float, float]:
    """Seconds that a task takes of a call of the payload, with the best of one search and with that of another."""
    sides = [[search.candidate(trial.config) for trial in search.right[:FINALISTS]] for search in (mine, theirs)]
    found = worker.evaluate(mine.job([*sides[0], *sides[1]], EFFORT))
    times = [quiet_time(each.samples.seconds) if each.samples is not None else inf for each in found]
    return mine.task.count * min(times[: len(sides[0])]), mine.task.count * min(times[len(sides[0]) :])


def part(path: Path) -> str:
    """What several jobs do on a recorded machine."""
    rows = [row(spec, data) for spec in PAYLOADS if (data := read(path, spec))]
    return f"\nIn `results/{path.parent.name}`:\n\n" + table(HEAD, rows)


def row(spec: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    one, several = data["rates"]["1"], data["rates"][str(data["jobs"])]
    more = [theirs / mine for mine, theirs in zip(one, several, strict=True)]
    cells = [f"`{spec}`, {data['trials']} trials, {len(one)} seeds", f"{median(one):.0f}", f"{median(several):.0f}"]
    cells += [f"{spread(more)} x", spread(data["winners"], 3), f"{median(data['floors']):.1%}"]
    alone, beside = data["again"]["1"], data["again"][str(data["jobs"])]
    cells += [f"{apart(alone):.1%}", f"{apart(beside):.1%}", f"{median(beside) / median(alone):.3f} x"]
    return f"| {' | '.join(cells)} |"


def spread(ratios: Sequence[float], digits: int = 2) -> str:
    """Mean, least and most of some ratios."""
    mean, least, most = (f"{each:.{digits}f}" for each in (geometric_mean(ratios), min(ratios), max(ratios)))
    return f"{mean} [{least}, {most}]"


def apart(times: Sequence[float]) -> float:
    """Relative difference that one of two neighbours stays below in 95 of 100 cases."""
    found = sorted(max(a, b) / min(a, b) - 1 for a, b in pairwise(times))
    return found[int(0.95 * len(found))]


BLOCK = Block("jobs", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
