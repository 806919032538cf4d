"""Self-test of the tuner's guarantees on this machine, with real workers, stores, sweeps and kills."""

import gc
import os
import random
import select
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import psutil

from autotune.contrib.selftest.figures import (
    Amounts,
    Direct,
    Figure,
    Instant,
    Report,
    judge_isolation,
    judge_pairs,
    open_search,
    product_task,
    share_figure,
)
from autotune.contrib.selftest.sandbox import check_sandbox
from autotune.contrib.selftest.threads import check_threads
from autotune.core.candidate import Candidate
from autotune.core.care import chosen_care
from autotune.core.evaluator import Effort, Evaluator
from autotune.core.host.machine import Machine, this_machine
from autotune.core.listener import SILENT, Listener
from autotune.core.plugs.family import Baseline
from autotune.core.space import Config
from autotune.core.task import Task
from autotune.registry import load_baseline
from autotune.store.store import Store
from autotune.tuning.stages.choose import as_fast_as_best, choose, race
from autotune.tuning.stages.task_search import TaskSearch
from autotune.worker.bench.claims import CoreClaim
from autotune.worker.bench.measuring_core import this_process_on
from autotune.worker.bench.noise import floor_of, time_copies, time_unequal
from autotune.worker.worker import Worker

SLOWER = 1.05
QUIET_EFFORT = Effort(samples=60, seconds=6.0, sample_seconds=0.003)
NEAR = 1.25  # ratio to the best time above which trials are not measured again
LIVES = 5  # tuners per store
WAIT_FOR_FIRST = (
    30.0  # seconds; half of the tuners are killed after the trial that they finish first, the others at any moment
)
LONGEST_LIVES = ((Direct, 3.0), (Instant, 1.0))  # seconds until a tuner is killed, by how it evaluates
SHARED_MEMORY = Path("/dev/shm")


def check_crashes(amounts: Amounts, worker: Worker) -> list[Figure]:
    """Crash the isolated process repeatedly; check the time to respawn and leaked resources."""
    times = []
    worker.call(abs, -1)
    before = count_resources()
    for _ in range(amounts.crashes):
        worker.call(signal.raise_signal, signal.SIGSEGV)
        start = time.perf_counter()
        worker.call(abs, -1)
        times.append(time.perf_counter() - start)
    leaked = {kind: count - before[kind] for kind, count in count_resources().items()}
    detail = f"{amounts.crashes} crashes; a new process after {statistics.median(times) * 1e3:.0f} ms (median)"
    listed = ", ".join(f"{count} {kind}" for kind, count in leaked.items())
    none = all(count <= 0 for count in leaked.values())
    return [
        Figure("respawn, seconds at most", max(times), "below 1", max(times) < 1.0, detail),
        Figure("processes, files and shared memory leaked", sum(leaked.values()), "0", none, f"{listed} more"),
    ]


def count_resources() -> dict[str, int]:
    """Count child processes including zombies, open files of this process and its children, and shared memory files."""
    me = psutil.Process()
    return {
        "processes": len(me.children(recursive=True)),
        "files": sum(process.num_fds() for process in (me, *me.children())),
        "of shared memory": len(os.listdir(SHARED_MEMORY)),
    }


def check_isolation(
    amounts: Amounts, worker: Evaluator, clock: Callable[[], float] = time.perf_counter
) -> list[Figure]:
    """Time the same trials in an isolated process and in this one, interleaved in random order."""
    task, machine, dice = product_task(), this_machine(), random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        stores = {name: Store.open(Path(folder) / name) for name in ("isolated", "direct")}
        searches = {name: open_search(store, task, machine, 0) for name, store in stores.items()}
        seconds: dict[str, list[float]] = {name: [] for name in searches}
        for number in range(amounts.trials + 1):
            for name in dice.sample(sorted(searches), 2):
                with pinned() if name == "direct" else nullcontext():
                    start = clock()
                    searches[name].step(worker if name == "isolated" else Direct())
                    seconds[name] += [clock() - start] if number else []  # the first one warms up
        for store in stores.values():
            store.close()
    return [judge_isolation(seconds["isolated"], seconds["direct"])]


@contextmanager
def pinned() -> Iterator[None]:
    """Pin this process to a core as candidates are."""
    with CoreClaim(1) as claim, this_process_on(claim.cores):
        yield


def check_kills(amounts: Amounts) -> list[Figure]:
    """Kill tuners at random times and resume with the same store; half of the tuners do little but record."""
    task, machine, dice = product_task(), this_machine(), random.Random(0)
    lost: set[str] = set()
    again: set[str] = set()
    finished: dict[Path, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(amounts.kills):
            evaluator, longest = LONGEST_LIVES[number % len(LONGEST_LIVES)]
            path = Path(folder) / f"{evaluator.__name__}{number // (LIVES * len(LONGEST_LIVES))}"
            work = partial(tune_for_ever, path, task, machine, evaluator())
            wait = WAIT_FOR_FIRST if number // len(LONGEST_LIVES) % 2 else 0.0
            written = keys_written_before_death(work, dice.uniform(0.0, longest), wait)
            with Store.open(path) as store:
                keys = Counter(trial.key for sweep in store.sweeps() for trial in sweep.recorded)
            lost |= written - set(keys)
            again |= written & finished.get(path, set()) | {key for key, times in keys.items() if times > 1}
            finished[path] = set(keys)
    count = sum(map(len, finished.values()))
    detail = f"{amounts.kills} kills, {count} trials finished"
    return [
        Figure("finished trials lost to kill -9", len(lost), "0", not lost, detail),
        Figure("finished trials run again after kill -9", len(again), "0", not again, detail),
    ]


def tune_for_ever(
    path: Path, task: Task, machine: Machine, evaluator: Evaluator, tell: Callable[[str], object]
) -> None:
    """Search without end; call `tell` with the key of every executed trial once it is recorded."""
    with Store.open(path) as store:
        search = open_search(store, task, machine, 0)
        while (stepped := search.step(evaluator)) is not None:
            if stepped[1]:
                tell(stepped[0].key)


def keys_written_before_death(work: Callable[[Callable[[str], object]], None], seconds: float, wait: float) -> set[str]:
    """Fork a process that writes keys to a pipe, kill it, and return the keys written completely.

    Args:
        work: Function that the process runs; it is given a function that writes a key.
        seconds: Seconds from the first key, or from the end of `wait`, to the kill.
        wait: Maximum number of seconds to wait for the first key.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        gc.freeze()  # never collect inherited objects: threads of the MLIR contexts do not exist in the fork
        with suppress(BaseException), os.fdopen(write, "wb", buffering=0) as pipe:
            work(lambda key: pipe.write(f"{key}\n".encode()))
        os._exit(0)
    os.close(write)
    select.select([read], [], [], wait)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, encoding="utf-8") as lines:
        return {line.strip() for line in lines if line.endswith("\n")}


def check_winners(amounts: Amounts, baseline: Baseline, floor: float, worker: Worker) -> list[Figure]:
    """Check that the winner of a sweep is among the fastest when it is measured again with more effort."""
    task, machine = product_task(), this_machine()
    false = 0
    for seed in range(amounts.sweeps):
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s") as store:
            search = open_search(store, task, machine, seed)
            for _ in range(amounts.sweep_trials):
                search.step(worker)
            winner = choose(search, baseline, floor, worker, chosen_care()).config
            false += winner not in fastest(search, winner, baseline, floor, worker)
    detail = f"sweeps of {amounts.sweep_trials} trials; differences below {floor:.2%} count as equal"
    return [share_figure("winners that a quiet measurement denies", false, amounts.sweeps, "at most 5 %", detail)]


def fastest(
    search: TaskSearch, winner: Config | None, baseline: Baseline, floor: float, worker: Worker
) -> list[Config | None]:
    """Remeasure the trials near the best and the winner in new processes; return those as fast as the fastest."""
    most = NEAR * (search.right[0].seconds or 0.0)
    rivals: list[Config | None] = [t.config for t in search.right if (t.seconds or 0.0) <= most and t.config != winner]
    rivals.append(winner)
    plain = Candidate(None, baseline.pipeline)
    candidates = [plain if config is None else search.candidate(config) for config in rivals]
    worker.renew()
    care = chosen_care()
    times = race(search, candidates, QUIET_EFFORT, worker, processes=care.processes)
    ran = {i: samples for i, samples in enumerate(times) if samples is not None}
    return [rivals[i] for i in as_fast_as_best(ran, floor)]


def run_selftest(amounts: Amounts, baseline: str, listener: Listener = SILENT) -> Report:
    """Run all checks in sequence.

    Args:
        amounts: Number of repetitions of each check.
        baseline: Name of the pipeline against which winners are timed.
        listener: Notified of the start of each check.

    Raises:
        ScheduleError: There is no such baseline.
    """
    pipeline, machine, load, start = load_baseline(baseline), this_machine(), os.getloadavg()[0], time.perf_counter()
    with Worker() as worker:
        listener.stage("crashes")
        figures = check_crashes(amounts, worker)
        listener.stage("kill -9")
        figures += check_kills(amounts)
        listener.stage("isolation")
        figures += check_isolation(amounts, worker)
        listener.stage("sandbox")
        figures += check_sandbox(amounts, worker)
        listener.stage("threads")
        figures += check_threads()
        listener.stage("statistics")
        same = time_copies(machine, worker, 2 * amounts.pairs)
        figures += judge_pairs(same, time_unequal(machine, worker, amounts.pairs, SLOWER))
        listener.stage("winners")
        figures += check_winners(amounts, pipeline, floor_of(same), worker)
    return Report(machine, load, time.perf_counter() - start, tuple(figures))
