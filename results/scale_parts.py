"""What the parts of a trial take on a cluster, measured here; `scale.py` simulates with it."""

import heapq
import json
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

from database import measure_store
from fleet import Parts
from own_cluster import COMMAND, processes
from own_postgres import own_postgres

from autotune.contrib.cluster.slot import SlotRequest
from autotune.contrib.spaces.rerun import Ground
from autotune.core.evaluator import Job
from autotune.core.scripts.assembly import write_step
from autotune.core.space import Value
from autotune.registry import load_family
from autotune.store.recording import Recording
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.task_search import SEARCH_EFFORT

TRIALS, SHARE = 60, 0.95  # of a search; the best that is looked for: this share of the speed of the best
MESSAGES, ALONE = 400, 40  # that are carried at once, and one by one
OWN_TRIALS = 60  # of the sweep whose own time is measured


def costs_of(recording: Recording) -> list[float]:
    """Seconds that each trial of a recording took on its slot."""
    return [cost for trial in recording.trials if (cost := sum(trial.phases.values()))]


def search_again(grounds: list[Ground], at_once: int, seeds: int) -> dict[str, Any]:
    """Searches with so many trials under way: trials to the best a space and seed, and what asking takes."""
    begun = time.process_time()
    runs = [[trials_to_best(ground, seed, at_once) for seed in range(seeds)] for ground in grounds]
    seconds, asked = time.process_time() - begun, sum(asked for each in runs for _, asked in each)
    return {"trials": [[ended for ended, _ in each] for each in runs], "asking": seconds / asked}


def trials_to_best(ground: Ground, seed: int, at_once: int) -> tuple[int, int]:
    """Trials that end until one is near the best, with so many under way, and how many were asked for by then.

    One more than there were if none is.
    """
    recording = ground.recording
    search = Search(recording.space, ground.anywhere(seed), seed=seed, features=ground.features)
    under_way: list[tuple[float, int, dict[str, Value]]] = []
    now, asked, ended = 0.0, 0, 0
    while ended < TRIALS:
        while len(under_way) < at_once and (config := search.ask([each for _, _, each in under_way])) is not None:
            cost = ground.outcomes[recording.values_of(config)][1]
            asked += 1
            heapq.heappush(under_way, (now + cost, asked, config))
        if not under_way:
            break
        now, _, config = heapq.heappop(under_way)
        seconds = ground.outcomes[recording.values_of(config)][0]
        search.tell(config, seconds)
        ended += 1
        if seconds <= ground.best / SHARE:
            return ended, asked
    return TRIALS + 1, asked


def measure_parts(recording: Recording, searches: dict[int, dict[str, Any]]) -> Parts:
    """What everything beside a trial takes; adds to each search how many trials of one it needs."""
    alone = searches[1]
    for each in searches.values():
        each["ratio"] = fmean(map(fmean, each["trials"])) / fmean(map(fmean, alone["trials"]))
    beside = {count - 1: max(0.0, each["asking"] - alone["asking"]) for count, each in searches.items()}
    with own_postgres() as server:
        record = median(measure_store(server.url()))
    submit, carry, way = measure_messages(request_of(recording))
    return Parts(measure_own(), beside, record, submit, carry, way)


def measure_own() -> float:
    """Seconds that the tuner takes of each trial of nano, with one worker."""
    words = ["tune", "nano", "--trials", str(OWN_TRIALS), "--cold", "--store", "store", "--bundle", "bundle", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True, cwd=folder
        )
    result = json.loads(done.stdout)
    return float(result["overhead_seconds"] / result["evaluated"])


def request_of(recording: Recording) -> bytes:
    """A trial as it is sent."""
    family, task, config = load_family(recording.family), recording.task, recording.default
    step = write_step(task, family, config, recording.machine, alone=True)
    job = Job(task.payload, (candidate_alone(step),), recording.machine, 0, SEARCH_EFFORT)
    return pickle.dumps(SlotRequest("evaluate", (job, 60.0)))


def measure_messages(request: bytes) -> tuple[float, float, float]:
    """Seconds of sending one off, of each of many that are carried at once, and more that one alone takes."""
    from distributed import Client  # comes with an extra

    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as cluster:
        cluster.join_without_slot()
        with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            client.submit(len, request, pure=False).result()
            begun = time.perf_counter()
            for _ in range(ALONE):
                client.submit(len, request, pure=False).result()
            alone = (time.perf_counter() - begun) / ALONE
            begun = time.perf_counter()
            sent = [client.submit(len, request, pure=False) for _ in range(MESSAGES)]
            submit = (time.perf_counter() - begun) / MESSAGES
            client.gather(sent)
            carry = (time.perf_counter() - begun) / MESSAGES
    return submit, carry, max(0.0, alone - carry)
