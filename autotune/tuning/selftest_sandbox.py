"""Self-test of the sandbox: what a program in it can do to its surroundings, and what its walls cost a trial."""

import random
import tempfile
import time
from pathlib import Path

from autotune.core.evaluator import Effort
from autotune.core.machine import this_machine
from autotune.core.stats import ratio_interval
from autotune.store.store import Store
from autotune.tuning.selftest_figures import Amounts, Figure, open_search, product_task
from autotune.worker.probe import ATTEMPTS, find_holes
from autotune.worker.sandbox import available_walls
from autotune.worker.worker import Worker

MOST_COST = 0.01  # of a trial
EFFORT = Effort(samples=10, seconds=0.2, sample_seconds=1e-3)


def check_sandbox(amounts: Amounts, worker: Worker) -> list[Figure]:
    """Try to break out of the sandbox, and time the same trial with and without it, in turn."""
    walls = ", ".join(available_walls()) or "none"
    holes = find_holes(worker)
    said = f"walls: {walls}; tried: {', '.join(ATTEMPTS)}"
    figures = [Figure("attempts that leave the sandbox", len(holes), "0", not holes, said)]
    with Worker(sandboxed=False) as bare:
        figures.append(judge_cost(*time_both(worker, bare, amounts.trials)))
    return figures


def time_both(walled: Worker, bare: Worker, trials: int) -> tuple[list[float], list[float]]:
    """Seconds of the same trial in two workers, in random order."""
    task, machine, dice = product_task(), this_machine(), random.Random(0)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s") as store:
        search = open_search(store, task, machine, 0)
        job = search.job([search.candidate(search.family.default(task, machine))], EFFORT)
    workers = (walled, bare)
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(trials + 1):
        for place in dice.sample(range(2), 2):
            start = time.perf_counter()
            workers[place].evaluate(job)
            seconds[place].extend([time.perf_counter() - start] if number else [])  # the first one warms up
    return seconds


def judge_cost(walled: list[float], bare: list[float]) -> Figure:
    """What the walls cost a trial; unlawful where that is certainly more than `MOST_COST`."""
    ratio = ratio_interval(walled, bare)
    said = f"95 % interval {ratio.low - 1:.1%} to {ratio.high - 1:.1%}; {len(bare)} trials each, in turn"
    return Figure(
        "time of a trial that the sandbox costs", ratio.estimate - 1, "at most 1 %", ratio.low <= 1 + MOST_COST, said
    )
