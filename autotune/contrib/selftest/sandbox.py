"""Self-test of the sandbox: attempts to escape from it, and its cost per trial."""

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from autotune.contrib.selftest.figures import BLOCK, Amounts, Figure, open_search, product_task
from autotune.core.evaluator import Effort
from autotune.core.host.machine import this_machine
from autotune.core.stats import ratio_interval
from autotune.store.store import Store
from autotune.worker.isolation.sandbox import available_mechanisms
from autotune.worker.probe import ATTEMPTS, find_holes
from autotune.worker.worker import Worker

MOST_COST = 0.01  # maximum fraction of the time of a trial
EFFORT = Effort(samples=10, seconds=0.2, sample_seconds=1e-3)


def check_sandbox(amounts: Amounts, worker: Worker) -> list[Figure]:
    """Try to escape from the sandbox, and time the same trial with and without it."""
    mechanisms = ", ".join(available_mechanisms()) or "none"
    holes = find_holes(worker)
    detail = f"mechanisms: {mechanisms}; tried: {', '.join(ATTEMPTS)}"
    figures = [Figure("attempts that leave the sandbox", len(holes), "0", not holes, detail)]
    pairs = [time_pair(seed) for seed in range(max(1, amounts.trials // BLOCK))]
    return [*figures, judge_cost([inside for inside, _ in pairs], [outside for _, outside in pairs])]


def time_pair(seed: int) -> tuple[float, float]:
    """Return median seconds of the same trial in two new processes, with and without the sandbox, in random order.

    The memory layout of a process changes times by several per cent, so that a single pair is not conclusive.
    """
    task, machine, dice = product_task(), this_machine(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s") as store:
        search = open_search(store, task, machine, 0)
        job = search.job([search.candidate(search.family.default(task, machine))], EFFORT)
    seconds: tuple[list[float], list[float]] = ([], [])
    with Worker() as inside, Worker(sandboxed=False) as outside:
        for number in range(BLOCK + 1):
            for position in dice.sample(range(2), 2):
                start = time.perf_counter()
                (inside, outside)[position].evaluate(job)
                seconds[position].extend([time.perf_counter() - start] if number else [])  # the first one warms up
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def judge_cost(inside: Sequence[float], outside: Sequence[float]) -> Figure:
    """Evaluate the cost of the sandbox over pairs of processes; it fails if the 95 % interval is above `MOST_COST`."""
    ratio = ratio_interval(inside, outside)
    detail = f"95 % interval {ratio.low - 1:.1%} to {ratio.high - 1:.1%}; "
    detail += f"processes in {len(outside)} pairs, {BLOCK} trials in each"
    return Figure(
        "time of a trial that the sandbox costs", ratio.estimate - 1, "at most 1 %", ratio.low <= 1 + MOST_COST, detail
    )
