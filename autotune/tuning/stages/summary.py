"""Summary of a tuning run, as plain data."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autotune.core.host.machine import Roofs
from autotune.core.ops.uncovered import NO_FAMILY, UncoveredOp, UncoveredShare, divide
from autotune.core.partition import Partition
from autotune.core.space import Value
from autotune.core.task import Task
from autotune.core.trial import Trial
from autotune.core.winner_time import drift_of
from autotune.store.records import ProcessTimes
from autotune.store.sessions import SessionFigures, figures_of, quiet_reference
from autotune.tuning.result import Spent, TuneResult
from autotune.tuning.samplers.objectives import describe_front
from autotune.tuning.stages.assemble import Assembly
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.roofline import (
    may_exceed_roof,
    share_beside,
    weighted_flops,
    why_above,
    why_unsteady,
)
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.slow_baseline import TimedBaseline
from autotune.tuning.stages.task_search import TaskSearch


@dataclass(frozen=True)
class Ran:
    """Time and trials of the search in this run.

    Attributes:
        evaluated: Number of trials compiled and run now.
        seconds: Duration of the search.
        overhead_seconds: Overhead of the tuner in it: ask, tell, generate scripts, record.
    """

    evaluated: int
    seconds: float
    overhead_seconds: float


@dataclass(frozen=True)
class Searched:
    """Result of the search of all tasks.

    Attributes:
        searches: Search for every pair of a task and a competing family.
        ran: Time and trials of this run.
        unlike: Number of trials in the store that are not comparable, and not used.
        notes: Notes for the user, a sentence each.
    """

    searches: Sequence[TaskSearch]
    ran: Ran
    unlike: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Winners:
    """Choices of all tasks.

    Attributes:
        choices: Choice of each task.
        spent: Error budget and measured errors; `None` where nothing rounds.
        notes: Notes for the user, a sentence each.
    """

    choices: Sequence[Choice]
    spent: Spent | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """The verified whole, with times of it and its baseline.

    Attributes:
        baseline: Baseline, with the part of its call that was timed.
        assembly: Assembled whole.
        sessions: Times of both in several processes.
    """

    baseline: TimedBaseline
    assembly: Assembly
    sessions: tuple[ProcessTimes, ...]

    def figures(self, choices: Sequence[Choice]) -> SessionFigures:
        """Return the figures over all sessions, with the FMA kernel's best time over all measurements of the run."""
        return figures_of(self.sessions, self.baseline.error, self.quiet(choices))

    def quiet(self, choices: Sequence[Choice]) -> float | None:
        """Return the best seconds a call of the FMA kernel in sessions and choices; `None` where it was never run."""
        return quiet_reference(self.sessions, (c.samples.reference_seconds for c in choices if c.samples))


def summarize(
    run: Run, searched: Searched, winners: Winners, proof: Proof, *, roofs: Roofs, seconds: float
) -> TuneResult:
    """Return the result of a run as plain data.

    Args:
        run: The run.
        searched: Result of the search.
        winners: Choices of the tasks.
        proof: Verified whole.
        roofs: Roofs of the machine.
        seconds: Duration of the run in seconds.
    """
    payload, machine = run.payload, run.machine
    searches, choices, spent = searched.searches, winners.choices, winners.spent
    assembly, figures = proof.assembly, proof.figures(choices)
    tasks = {search.task.tag: search.task for search in searches}.values()
    flops = payload.flops or sum(task.needed_flops * task.count for task in tasks)
    outcomes: Counter[str] = Counter(trial.outcome for search in searches for trial in search.trials)
    notes = [*payload.notes, *searched.notes, *winners.notes]
    if not searches:
        notes.append("it has no linalg op on static tensors, so that nothing could be tuned")
    if searched.unlike:
        notes.append(
            f"{searched.unlike} trials in the store are of another machine, number of threads, compiler, payload text, "
            "error budget, family or script; they are not used"
        )
    notes += [f"{choice.search.task.tag}: {choice.note}" for choice in choices if choice.note]
    beside = figures.reference_seconds
    if spent is not None:
        scheduled = [(c.search.family.name, c.search.task) for c in choices if c.config is not None]
        counts = [(name, task.needed_flops * task.count) for name, task in scheduled]
        flops = weighted_flops(flops, counts, roofs.known)
        spent = replace(spent, weighted_flops=flops)
    share = share_beside(flops, figures.clock_seconds, beside, machine) if flops and beside is not None else None
    changed = spent is not None or bool(run.parts.rewriting.firings) or bool(assembly.kernels)
    exceeds = may_exceed_roof((a.dtype for a in payload.arguments), assembly.script, is_rewritten=changed)
    unsteady = why_unsteady(None if exceeds else share, figures.interference, beside, machine, roofs.flops)
    if exceeds and spent is None and (above := why_above(share, beside, machine, roofs.flops)):
        notes.append(above)
    return TuneResult(
        payload=payload.name,
        machine=machine,
        roofs=roofs,
        baseline_name=proof.baseline.baseline.name,
        baseline_seconds=figures.baseline_seconds,
        best_seconds=figures.best_seconds,
        clock_seconds=figures.clock_seconds,
        unsteady=unsteady,
        roof_fraction=share,
        configs={c.search.task.tag: dict(c.config) for c in choices if c.config is not None and assembly.uses(c)},
        speedup=figures.speedup,
        max_error=assembly.max_error,
        trials=dict(outcomes),
        evaluated=searched.ran.evaluated,
        seconds=seconds,
        search_seconds=searched.ran.seconds,
        overhead_seconds=searched.ran.overhead_seconds,
        noise_floor=run.floor,
        notes=(*notes, *assembly.notes),
        details=tuple(
            f"{search.task.tag}: knob {knob} made no difference to the code"
            for search in searches
            for knob in knobs_without_effect(search.trials)
        ),
        spent=spent,
        oracle=payload.oracle,
        unproved=payload.unproved,
        uncovered=uncovered_shares(run.parts, choices, figures.best_seconds, proof.quiet(choices)),
    )


def uncovered_shares(
    parts: Partition, choices: Sequence[Choice], call_seconds: float, quiet: float | None
) -> tuple[UncoveredShare, ...]:
    """Estimate the shares of a call of the ops that no schedule changes: the time that the chosen tasks do not take.

    Args:
        parts: Partition of the payload.
        choices: Choices of all tasks that a family covers.
        call_seconds: Seconds of one call of the whole.
        quiet: Best seconds a call of the FMA kernel; `None` where it was never run.
    """
    chosen = {choice.search.task.tag for choice in choices}
    uncovered = [task for task in parts.tasks if task.tag not in chosen]
    without = (UncoveredOp(task.name, task.count, task.count * work_of(task), NO_FAMILY) for task in uncovered)
    times = [
        (c.search.task.count, c.samples.median / drift_of(c.samples.reference_seconds, quiet))
        for c in choices
        if c.samples is not None
    ]
    seconds = sum(count * each for count, each in times) if len(times) == len(choices) else None
    return divide((*parts.uncovered, *without), call_seconds, seconds)


def work_of(task: Task) -> float:
    """Return the operations of a task without a family, at least one for each point of its iteration space."""
    return max(task.payload.flops, float(prod(task.nest.sizes)))


def fronts_of(searches: Sequence[TaskSearch]) -> tuple[str, ...]:
    """Return a sentence on the Pareto front of each task."""
    named = ((each.task.name, each.right) for each in searches)
    return tuple(filter(None, (describe_front(name, trials) for name, trials in named)))


ENOUGH = 3  # groups of trials that differ in one knob only, from which it is reported as without effect


def knobs_without_effect(trials: Sequence[Trial]) -> list[str]:
    """Return the knobs that did not change the code in any trials that differ in them only.

    Args:
        trials: Trials of one task, with duplicates identified by fingerprints.
    """
    names = sorted({name for trial in trials for name in trial.config})
    return [name for name in names if has_no_effect(name, trials)]


def has_no_effect(knob: str, trials: Sequence[Trial]) -> bool:
    """Return whether all values of a knob led to the same code, for at least `ENOUGH` settings of the other knobs."""
    codes: dict[object, set[str]] = defaultdict(set)
    values: dict[object, set[Value]] = defaultdict(set)
    by_key = {trial.key: trial for trial in trials}
    for trial in trials:
        rest = tuple(sorted((name, value) for name, value in trial.config.items() if name != knob))
        values[rest].add(trial.config.get(knob, ""))
        codes[rest].add(code_of(trial, by_key))
    tried = [rest for rest in values if len(values[rest]) > 1]
    return len(tried) >= ENOUGH and all(len(codes[rest]) == 1 for rest in tried)


def code_of(trial: Trial, by_key: Mapping[str, Trial]) -> str:
    """Return the identity of a trial's code: the key of the trial that it duplicates, or its own."""
    return by_key[trial.twin].key if trial.twin in by_key else trial.key
