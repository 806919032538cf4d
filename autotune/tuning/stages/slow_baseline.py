"""Timing of a slow baseline within a budget: by whole calls where they are fast, else by sampled iterations.

A pass pipeline may take a thousand times as long as a schedule: 40 s a call for 2048^3, a minute for GPT-2, which would
dominate the time of a sweep. The time of a loop nest is proportional to its iterations, so that one in `part`
iterations of its outermost loops is run, and the time is scaled by the operations of the whole over those of the part.
The error of the extrapolation is estimated by running half as many iterations. Results that depend only on the
iterations that were run are verified.
"""

from dataclasses import dataclass
from math import ceil, inf, log2

from autotune.core.bench import Bench
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.plugs.family import Baseline
from autotune.store.records import MOST_PART_ERROR

PART_FLOPS = 2.0**28  # operations of a part; a pass pipeline executes at most one a nanosecond
FINEST_PART = 64
WHOLE_SECONDS = 1.0  # duration up to which whole calls are timed
BUDGET_SECONDS = 120.0  # for the baseline, including its compilation
PARTS_EFFORT = Effort(samples=9, seconds=4.0)


@dataclass(frozen=True)
class TimedBaseline:
    """A baseline, with the part of its call that is timed.

    Attributes:
        baseline: Pass pipeline.
        part: Sampling factor: one in `part` iterations is run.
        error: Relative error of an extrapolated time; 0 for whole calls.
        unseen: Reason why the results of a part are not verified; empty if they are.
        why_not: Reason why it is not timed; empty if it is.
    """

    baseline: Baseline
    part: int = 1
    error: float = 0.0
    unseen: str = ""
    why_not: str = ""

    @property
    def candidate(self) -> Candidate | None:
        """Program that is timed; `None` where none can be."""
        return None if self.why_not else Candidate(None, self.baseline.pipeline, part=self.part)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on its times, a sentence each."""
        if self.why_not:
            return (f"baseline {self.baseline.name} did not run ({self.why_not})",)
        if self.part == 1:
            return ()
        result = f"its result is not looked at, for {self.unseen}" if self.unseen else "what it computes is right"
        return (
            f"a call of baseline {self.baseline.name} takes long: one in {self.part} iterations of its outermost loops "
            f"is timed, and multiplied; within {max(self.error, 0.001):.1%}, {result}",
        )


def part_for(flops: float) -> int:
    """Return the sampling factor of iterations with which a slow program is timed; 1 for all of them.

    >>> [part_for(2.0 * size**3) for size in (256, 512, 1024, 2048, 8192)]
    [1, 1, 8, 64, 64]
    """
    return min(FINEST_PART, 1 << max(0, ceil(log2(max(flops, 1.0) / PART_FLOPS))))


def time_baseline(
    payload: Payload,
    baseline: Baseline,
    flops: float,
    *,
    machine: Machine,
    seed: int,
    worker: Bench,
    seconds: float = inf,
) -> TimedBaseline:
    """Determine how a baseline of a payload is timed: by whole calls, by a part, or not at all.

    Args:
        payload: Payload that it computes.
        baseline: Pass pipeline.
        flops: Operations of a call; 0 if unknown.
        machine: Host that it is timed on.
        seed: Seed of the input data.
        worker: Bench to measure in.
        seconds: Time limit of a job in seconds, where that is less than `BUDGET_SECONDS`.
    """
    part, budget = part_for(flops), min(BUDGET_SECONDS, seconds)
    if part == 1:
        return TimedBaseline(baseline)
    programs = tuple(Candidate(None, baseline.pipeline, part=each) for each in (part, 2 * part))
    job = Job(payload, programs, machine, seed, PARTS_EFFORT)
    evaluations = worker.evaluate(job, budget)
    if any(each.outcome == "lowering-failed" for each in evaluations):
        return time_whole(payload, baseline, machine=machine, seed=seed, worker=worker, budget=budget)
    for each in evaluations:
        if each.samples is None:
            return TimedBaseline(baseline, why_not=reason(each))
    more, less = (min(each.samples.seconds) for each in evaluations if each.samples is not None)
    if more <= WHOLE_SECONDS:
        return TimedBaseline(baseline)
    error = abs(less / more - 1)
    if error > MOST_PART_ERROR:
        return TimedBaseline(baseline, why_not=f"a part of it says too little of the whole, {error:.0%} of it")
    return TimedBaseline(baseline, part, error, evaluations[0].diagnostic)


def time_whole(
    payload: Payload, baseline: Baseline, *, machine: Machine, seed: int, worker: Bench, budget: float
) -> TimedBaseline:
    """Return a baseline that cannot be sampled: timed by whole calls, if one ends within the budget."""
    job = Job(payload, (Candidate(None, baseline.pipeline),), machine, seed, Effort(samples=1, seconds=0.0))
    (evaluation,) = worker.evaluate(job, budget)
    return TimedBaseline(baseline, why_not="" if evaluation.samples is not None else reason(evaluation))


def reason(evaluation: Evaluation) -> str:
    """Return the reason why a baseline could not be timed."""
    return f"{evaluation.outcome}: {evaluation.diagnostic}"
