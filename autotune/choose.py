"""Choosing a task's winner: finalists are measured again, interleaved with the baseline, before one is believed."""

from dataclasses import dataclass

from autotune.ir.evaluate import Candidate, Job
from autotune.measure import Effort
from autotune.space import Config
from autotune.stats import is_different
from autotune.task import Baseline
from autotune.task_search import TaskSearch
from autotune.trial import Samples
from autotune.worker import Worker

FINALISTS = 4
BASELINE_EFFORT = Effort(samples=3, seconds=0.1)


@dataclass(frozen=True)
class Choice:
    """What a task is compiled with in the whole model.

    Attributes:
        search: The task's search.
        config: The winner; `None` means the task keeps the plain lowering.
        samples: The winner's times in the final comparison; `None` if it was not measured again.
        baseline_seconds: The baseline's seconds a call for this task; `None` if it could not be run.
        note: Why, where it is not simply the fastest; empty otherwise.
    """

    search: TaskSearch
    config: Config | None
    samples: Samples | None = None
    baseline_seconds: float | None = None
    note: str = ""


def choose(search: TaskSearch, baseline: Baseline, floor: float, worker: Worker) -> Choice:
    """Race the finalists; ties go to the default config, and the baseline wins where it is faster.

    Args:
        search: A finished search.
        baseline: What no task may be slower than.
        floor: Relative differences below this are noise.
        worker: Where to measure.
    """
    if not search.right:
        said = search.trials[-1].diagnostic if search.trials else "nothing was tried"
        return Choice(search, None, note=f"no config works ({said}); plain lowering instead")
    default = search.family.default(search.task, search.machine)
    finalists = [trial.config for trial in search.right[:FINALISTS]]
    if default not in finalists and any(trial.config == default for trial in search.right):
        finalists.append(dict(default))
    seconds = baseline_seconds(search, baseline, worker)
    evaluations = worker.evaluate(search.race(finalists))
    raced = {i: e.samples for i, e in enumerate(evaluations) if e.samples is not None}
    if not raced:
        return Choice(search, finalists[0], baseline_seconds=seconds, note="finalists could not be measured again")
    winner = min(raced, key=lambda i: raced[i].median)
    settled = next((i for i in raced if finalists[i] == default), winner)
    if not is_different(raced[settled].seconds, raced[winner].seconds, floor=floor):
        winner = settled
    if seconds is not None and seconds < raced[winner].median * (1 - floor):
        return Choice(search, None, None, seconds, f"{baseline.name} is faster here; plain lowering instead")
    return Choice(search, finalists[winner], raced[winner], seconds)


def baseline_seconds(search: TaskSearch, baseline: Baseline, worker: Worker) -> float | None:
    """The baseline's time for one task alone."""
    job = Job(
        search.task.payload,
        (Candidate(None, baseline.pipeline),),
        search.machine,
        seed=search.seed,
        effort=BASELINE_EFFORT,
    )
    (found,) = worker.evaluate(job)
    return found.samples.normalised if found.samples is not None else None
