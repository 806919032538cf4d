"""Tune a payload end to end: partition, search every task, choose, assemble, and prove the whole faster and right."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError, SpaceError
from autotune.core.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.core.task import Task
from autotune.core.trial import Trial
from autotune.registry import family_for, load_baseline
from autotune.store.bundle import check_target, write_bundle
from autotune.store.store import Store
from autotune.tuning.assemble import assemble_model
from autotune.tuning.choose import choose
from autotune.tuning.record import record
from autotune.tuning.result import TuneResult
from autotune.tuning.roofline import roof_seconds
from autotune.tuning.scheduler import Scheduler
from autotune.tuning.search import SAMPLERS
from autotune.tuning.summary import Ran, summarize
from autotune.tuning.task_search import TaskSearch
from autotune.tuning.warm_start import KnownConfig
from autotune.worker.noise import measure_noise
from autotune.worker.worker import MEMORY_SHARE, Worker

NOISE_PAIRS = 4  # A/A comparisons at the start; differences below what they show are ties


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    Attributes:
        trials: Candidates to run, over all tasks, counting those a store already holds.
        seconds: Stop the search this long after its first trial; `None` for no bound.
        sampler: One of `autotune.tuning.search.SAMPLERS`.
        seed: Of the sampler and of the input data.
        baseline: Name of the pipeline that speed-ups are quoted against.
        timeout: Seconds one candidate may take to compile, verify and measure.
        known: Recorded configs; each task starts from the nearest.
        least_floor: Differences below it are ties, however quiet the machine seems: what `doctor --noise` kept.
    """

    trials: int = 100
    seconds: float | None = None
    sampler: str = "tpe"
    seed: int = 0
    baseline: str = "passes"
    timeout: float = 60.0
    known: tuple[KnownConfig, ...] = ()
    least_floor: float = 0.0

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise SpaceError(f"sampler must be one of {', '.join(SAMPLERS)}; got {self.sampler!r}")

    def command(self, payload: str) -> list[str]:
        """The command line that tunes a payload so, without the places of store and bundle."""
        bound = ["--seconds", f"{self.seconds:g}"] if self.seconds is not None else []
        choices = ["--sampler", self.sampler, "--seed", str(self.seed), "--baseline", self.baseline]
        cold = [] if self.known else ["--cold"]
        return ["autotune", "tune", payload, "--trials", str(self.trials), *bound, *choices, *cold]


@dataclass
class Progress:
    """What a caller can watch while a payload is tuned.

    Attributes:
        stage: Called when a stage begins, with a sentence.
        trial: Called after each trial, with the trial, how many were counted so far, and the task's best seconds.
    """

    stage: Callable[[str], None] = field(default=lambda sentence: None)
    trial: Callable[[Trial, int, float | None], None] = field(default=lambda trial, done, best: None)


def tune(payload: Payload, store: Store, bundle: Path, options: TuneOptions, progress: Progress) -> TuneResult:
    """Tune one payload.

    Args:
        payload: What to tune.
        store: Receives every trial, and holds those of earlier runs.
        bundle: Folder to write the winner to.
        options: How to tune.
        progress: Who watches.

    Raises:
        PayloadError: The payload does not fit the machine, cannot be partitioned, or its oracle is not finite.
        KeyboardInterrupt: Passed on; what was recorded stays.
    """
    start = time.perf_counter()
    check_memory(payload)
    check_target(bundle)
    machine = this_machine()
    baseline = load_baseline(options.baseline)
    with Worker(options.timeout) as worker:
        progress.stage("measuring roofs and noise of this machine")
        roofs = worker.roofs(machine)
        floor = max(options.least_floor, measure_noise(machine, worker, NOISE_PAIRS))
        progress.stage("partitioning the payload")
        parts = partition(payload)
        searches = open_searches(payload, parts.tasks, machine, store, options)
        unlike = store.count_incomparable(search.sweep for search in searches)
        progress.stage("searching")
        ran = run_searches(searches, options, worker, progress)
        progress.stage("measuring finalists")
        choices = [choose(search, baseline, floor, worker) for search in searches]
        progress.stage("assembling and proving the whole")
        assembly = assemble_model(payload, parts, choices, baseline, machine=machine, seed=options.seed, worker=worker)
        result = summarize(
            payload,
            machine,
            roofs,
            baseline,
            searches=searches,
            choices=choices,
            assembly=assembly,
            ran=ran,
            start=start,
            floor=floor,
            unlike=unlike,
        )
        progress.stage("recording the bundle")
        texts, manifest = record(
            payload,
            parts,
            assembly=assembly,
            choices=choices,
            result=result,
            seed=options.seed,
            command=options.command(payload.name),
            worker=worker,
        )
    folder = write_bundle(bundle, texts, manifest)
    result = result.with_bundle(folder, manifest.speedup)
    store.write_summary(payload.name, result.to_json())
    return result


def open_searches(
    payload: Payload, tasks: Sequence[Task], machine: Machine, store: Store, options: TuneOptions
) -> list[TaskSearch]:
    """A search for every task that a family covers."""
    searches = []
    for task in tasks:
        family = family_for(task)
        if family is not None:
            opened = TaskSearch.open(
                task,
                family,
                machine,
                store,
                payload=payload.name,
                sampler=options.sampler,
                seed=options.seed,
                known=options.known,
            )
            searches.append(opened)
    return searches


def check_memory(payload: Payload) -> None:
    """Refuse what cannot be run here.

    Raises:
        PayloadError: The arguments alone take more memory than the machine has.
    """
    total = psutil.virtual_memory().total
    if payload.bytes > total * MEMORY_SHARE:
        raise PayloadError(
            f"arguments of {payload.name} must fit the memory of a worker, {total * MEMORY_SHARE / 2**30:.0f} GiB; "
            f"they take {payload.bytes / 2**30:.0f} GiB; choose smaller sizes"
        )


def run_searches(searches: Sequence[TaskSearch], options: TuneOptions, worker: Worker, progress: Progress) -> Ran:
    """Give trials to tasks until the budget is spent: every default first, then where most time is to be gained."""
    begun = time.perf_counter()
    scheduler = Scheduler([search.task.count for search in searches], options.seed)
    counted = evaluated = 0
    while counted < options.trials:
        if options.seconds is not None and time.perf_counter() - begun > options.seconds:
            break
        place = scheduler.choose()
        if place is None:
            break
        search = searches[place]
        stepped = search.step(worker)
        if stepped is None:
            scheduler.close(place)
            continue
        trial, fresh = stepped
        roof = roof_seconds(search.task, trial.samples, search.machine)
        scheduler.learn(place, trial.seconds, roof=roof, cost=sum(trial.phases.values()))
        counted += trial.outcome != "duplicate"
        evaluated += fresh
        progress.trial(trial, counted, search.best_seconds)
    return Ran(evaluated, time.perf_counter() - begun, sum(search.own_seconds for search in searches))
