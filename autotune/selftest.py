"""The self-test: does the tuner keep on this machine what it promises? With real workers, stores, sweeps and kills."""

import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from autotune.choose import choose, pick_finalists, race, tied
from autotune.machine import Machine, this_machine
from autotune.measure import Effort
from autotune.noise import Pair, floor_of, time_twins, time_unequal
from autotune.promises import Amounts, Direct, Figure, open_search, product_task
from autotune.registry import load_baseline
from autotune.schedule import Baseline
from autotune.stats import is_different
from autotune.store import Store
from autotune.task import Task
from autotune.worker import Worker

SLOWER = 1.05
QUIET_EFFORT = Effort(samples=120, seconds=6.0, sample_seconds=0.003)
LONGEST_LIFE = 3.0  # seconds, of a tuner that is killed
CHUNK = 5  # trials, isolated and not by turns


def check_crashes(amounts: Amounts) -> list[Figure]:
    """Crash the isolated process again and again."""
    me = psutil.Process()
    times = []
    with Worker() as worker:
        worker.call(abs, -1)
        files = me.num_fds()
        for _ in range(amounts.crashes):
            worker.call(signal.raise_signal, signal.SIGSEGV)
            start = time.perf_counter()
            worker.call(abs, -1)
            times.append(time.perf_counter() - start)
        processes = me.children(recursive=True)
        zombies = sum(child.status() == psutil.STATUS_ZOMBIE for child in processes)
        leaked = me.num_fds() - files
    said = f"{amounts.crashes} crashes; a new process after {statistics.median(times) * 1e3:.0f} ms (median)"
    return [
        Figure("respawn, seconds at most", max(times), "below 1", max(times) < 1.0, said),
        Figure("zombies and leaked files", zombies + leaked, "0", zombies + leaked == 0, said),
    ]


def check_isolation(amounts: Amounts) -> list[Figure]:
    """The same trials in an isolated process and in this one, by turns."""
    task, machine = product_task(), this_machine()
    seconds = {"isolated": 0.0, "direct": 0.0}
    affinity = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder, Worker() as worker:
        stores = {name: Store.open(Path(folder) / name) for name in seconds}
        searches = {name: open_search(store, task, machine, 0) for name, store in stores.items()}
        workers = {"isolated": worker, "direct": Direct()}
        for name, search in searches.items():
            search.step(workers[name])  # type: ignore[arg-type]
        for turn in range(amounts.trials // CHUNK):
            for name in sorted(searches, reverse=turn % 2 == 1):
                if name == "direct":
                    os.sched_setaffinity(0, {max(affinity)})
                start = time.perf_counter()
                for _ in range(CHUNK):
                    searches[name].step(workers[name])  # type: ignore[arg-type]
                seconds[name] += time.perf_counter() - start
                os.sched_setaffinity(0, affinity)
        for store in stores.values():
            store.close()
    count = amounts.trials // CHUNK * CHUNK
    rates = {name: 60 * count / spent for name, spent in seconds.items()}
    loss = 1 - rates["isolated"] / rates["direct"]
    said = f"{rates['isolated']:.0f} trials a minute, {rates['direct']:.0f} without isolation, {count} each"
    return [Figure("trials a minute lost to isolation", loss, "at most 10 %", loss <= 0.10, said)]


def check_statistics(amounts: Amounts) -> list[Figure]:
    """Equal programs must not be told apart, unequal ones must."""
    machine = this_machine()
    with Worker() as worker:
        same = time_twins(machine, worker, amounts.pairs)
        unequal = time_unequal(machine, worker, amounts.pairs, SLOWER)
    return judge(same, unequal)


def judge(same: list[Pair], unequal: list[Pair]) -> list[Figure]:
    """How often pairs are called different; the floor is that of the first half of the pairs of equal programs."""
    half = len(same) // 2
    floor = floor_of(same[:half])
    wrong = statistics.mean(is_different(pair.a, pair.b, floor=floor) for pair in same[half:])
    found = statistics.mean(is_different(pair.a, pair.b, floor=floor) for pair in unequal)
    said = f"{len(same) - half} and {len(unequal)} pairs, floor {floor:.2%}"
    return [
        Figure("equal programs called different", wrong, "at most 1 %", wrong <= 0.01, said),
        Figure("programs 5 % slower found out", found, "at least 95 %", found >= 0.95, said),
    ]


def check_kills(amounts: Amounts) -> list[Figure]:
    """Kill tuners on one store at random moments."""
    task, machine, dice = product_task(), this_machine(), random.Random(0)
    lost = repeated = finished = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.journal"
        told: set[str] = set()
        for _ in range(amounts.kills):
            told |= keys_told_before_death(lambda tell: tune_for_ever(path, task, machine, tell), dice)
            with Store.open(path) as store:
                keys = [trial.key for sweep in store.sweeps() for trial in sweep.recorded]
            lost = len(told - set(keys))
            repeated = len(keys) - len(set(keys))
            finished = len(keys)
    said = f"{amounts.kills} kills, {finished} trials finished"
    return [
        Figure("finished trials lost to kill -9", lost, "0", lost == 0, said),
        Figure("finished trials run again after kill -9", repeated, "0", repeated == 0, said),
    ]


def tune_for_ever(path: Path, task: Task, machine: Machine, tell: Callable[[str], object]) -> None:
    """Search, and tell the key of every trial once it is recorded."""
    with Store.open(path) as store:
        search = open_search(store, task, machine, 0)
        while (stepped := search.step(Direct())) is not None:  # type: ignore[arg-type]
            tell(stepped[0].key)


def keys_told_before_death(work: Callable[[Callable[[str], object]], None], dice: random.Random) -> set[str]:
    """Let a forked process work, and kill it at a random moment; the lines it told."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException), os.fdopen(write, "wb", buffering=0) as pipe:
            work(lambda key: pipe.write(f"{key}\n".encode()))
        os._exit(0)
    os.close(write)
    time.sleep(dice.uniform(0.0, LONGEST_LIFE))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as lines:
        return {line.strip() for line in lines if line.endswith("\n")}


def check_winners(amounts: Amounts, baseline: Baseline, floor: float) -> list[Figure]:
    """Is the winner of a sweep, measured quietly again, among the fastest?"""
    task, machine = product_task(), this_machine()
    false = 0
    for seed in range(amounts.sweeps):
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s") as store, Worker() as worker:
            search = open_search(store, task, machine, seed)
            for _ in range(amounts.trials // 3):
                search.step(worker)
            winner = choose(search, baseline, floor, worker).config
            rivals = pick_finalists(search, search.family.default(task, machine))
            times = race(search, [search.candidate(trial.config) for trial in rivals], QUIET_EFFORT, worker)
            ran = {i: samples for i, samples in enumerate(times) if samples is not None}
            false += winner is not None and winner not in [rivals[i].config for i in tied(ran, floor)]
    rate = false / amounts.sweeps
    said = f"{false} of {amounts.sweeps} sweeps of {amounts.trials // 3} trials; ties are below {floor:.2%}"
    return [Figure("winners that a quiet measurement denies", rate, "at most 5 %", rate <= 0.05, said)]


def run_selftest(amounts: Amounts, baseline: str, stage: Callable[[str], None]) -> list[Figure]:
    """Every check, one after the other.

    Args:
        amounts: How much to do.
        baseline: Name of the pipeline that winners race against.
        stage: Told what begins.
    """
    figures: list[Figure] = []
    checks = (("crashes", check_crashes), ("isolation", check_isolation), ("kill -9", check_kills))
    for name, check in (*checks, ("statistics", check_statistics)):
        stage(name)
        figures += check(amounts)
    stage("winners")
    with Worker() as worker:
        floor = floor_of(time_twins(this_machine(), worker, min(20, amounts.pairs)))
    return figures + check_winners(amounts, load_baseline(baseline), floor)
