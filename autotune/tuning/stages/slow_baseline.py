"""How a baseline is timed: by whole calls where they are quick, else by a part of each, within a budget.

A pass pipeline may take a thousand times as long as a schedule: 2048^3 takes it 40 s a call, GPT-2 a minute. What a
sweep costs would then be what its baseline costs. A program of loops takes as long as it has iterations, so one in so
many iterations of its outermost loops is run, and the time multiplied by the ops of the whole over those of the part.
How far that is from the truth is seen by running half as many: what is not in proportion differs between the two as
much as it does from there to the whole. What the part computes is verified, as far as it follows from what was run.
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

PART_FLOPS = 2.0**28  # in a part; a pass pipeline does one or less a nanosecond
FINEST_PART = 64
WHOLE_SECONDS = 1.0  # a call of so long is made whole
BUDGET_SECONDS = 120.0  # for all that is to be known of a baseline, compilation included
PARTS_EFFORT = Effort(samples=9, seconds=4.0)


@dataclass(frozen=True)
class TimedBaseline:
    """A baseline, and how much of a call of it is timed.

    Attributes:
        baseline: Pass pipeline.
        part: One in so many iterations is run.
        error: Relative error of a time that comes from a part; 0 of whole calls.
        unseen: Reason why the results of a part are not looked at, where they are not.
        why_not: Reason why it is not timed at all, where it is not.
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
    """One in how many iterations of a slow program is enough to time; 1 for all of them.

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
    """Find out how a baseline of a payload is to be timed.

    Args:
        payload: Payload that it computes.
        baseline: Pass pipeline.
        flops: Multiplications and additions of a call; 0 if unknown.
        machine: Host that it is timed on.
        seed: Seed of the input data.
        worker: Bench to measure in.
        seconds: Seconds that a job may take, where that is less than `BUDGET_SECONDS`.
    """
    part, budget = part_for(flops), min(BUDGET_SECONDS, seconds)
    if part == 1:
        return TimedBaseline(baseline)
    programs = tuple(Candidate(None, baseline.pipeline, part=each) for each in (part, 2 * part))
    job = Job(payload, programs, machine, seed, PARTS_EFFORT)
    found = worker.evaluate(job, budget)
    if any(each.outcome == "lowering-failed" for each in found):
        return time_whole(payload, baseline, machine=machine, seed=seed, worker=worker, budget=budget)
    for each in found:
        if each.samples is None:
            return TimedBaseline(baseline, why_not=reason(each))
    more, less = (min(each.samples.seconds) for each in found if each.samples is not None)
    if more <= WHOLE_SECONDS:
        return TimedBaseline(baseline)
    error = abs(less / more - 1)
    if error > MOST_PART_ERROR:
        return TimedBaseline(baseline, why_not=f"a part of it says too little of the whole, {error:.0%} of it")
    return TimedBaseline(baseline, part, error, found[0].diagnostic)


def time_whole(
    payload: Payload, baseline: Baseline, *, machine: Machine, seed: int, worker: Bench, budget: float
) -> TimedBaseline:
    """A baseline of which no part can be taken: whole calls, if one ends in time."""
    job = Job(payload, (Candidate(None, baseline.pipeline),), machine, seed, Effort(samples=1, seconds=0.0))
    (found,) = worker.evaluate(job, budget)
    return TimedBaseline(baseline, why_not="" if found.samples is not None else reason(found))


def reason(found: Evaluation) -> str:
    """Why a baseline could not be timed."""
    return f"{found.outcome}: {found.diagnostic}"
