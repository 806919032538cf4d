"""Choosing a task's winner: finalists are measured again, interleaved with the baseline, before one is believed."""

from dataclasses import dataclass

from autotune.ir.evaluate import Candidate
from autotune.measure import Effort
from autotune.schedule import Baseline
from autotune.space import Config
from autotune.stats import is_different
from autotune.task_search import TaskSearch
from autotune.trial import Samples
from autotune.worker import Worker

FINALISTS = 8
CLOSE = 2.0  # a baseline within this factor of the best is raced against the finalists
BASELINE_EFFORT = Effort(samples=3, seconds=0.1)
RACE_EFFORT = Effort(samples=30, seconds=2.0, sample_seconds=0.003)


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
    default = search.family.default(search.task, search.machine)
    if not search.trials:
        return Choice(search, default, note="no trial was left for it; the default config, unmeasured alone")
    if not search.right:
        return Choice(search, None, note=f"no config works ({search.trials[-1].diagnostic}); plain lowering instead")
    finalists: list[Config] = [trial.config for trial in search.right[:FINALISTS]]
    if default not in finalists and any(trial.config == default for trial in search.right):
        finalists.append(default)
    plain = Candidate(None, baseline.pipeline)
    (alone,) = worker.evaluate(search.job([plain], BASELINE_EFFORT))
    seconds = alone.samples.median if alone.samples else None
    close = seconds is not None and seconds < CLOSE * search.right[0].seconds_median
    candidates = [search.candidate(config) for config in finalists] + ([plain] if close else [])
    evaluations = worker.evaluate(search.job(candidates, RACE_EFFORT))
    raced = {i: e.samples for i, e in enumerate(evaluations[: len(finalists)]) if e.samples is not None}
    if not raced:
        return Choice(search, finalists[0], None, seconds, "the finalists could not be measured again")
    winner = min(raced, key=lambda i: raced[i].median)
    settled = next((i for i in raced if finalists[i] == default), winner)
    if not is_different(raced[settled].seconds, raced[winner].seconds, floor=floor):
        winner = settled
    theirs = evaluations[-1].samples if close else None
    if theirs is not None:
        seconds = theirs.median
        if seconds < raced[winner].median and is_different(theirs.seconds, raced[winner].seconds, floor=floor):
            return Choice(search, None, None, seconds, f"{baseline.name} is faster here; plain lowering instead")
    return Choice(search, finalists[winner], raced[winner], seconds)
