"""Summary of a tuning run, as plain data."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.compiler.tasks.partition import Partition
from autotune.core.host.machine import Machine, Roofs
from autotune.core.ops.uncovered import NO_FAMILY, UncoveredOp, UncoveredShare, divide
from autotune.core.payload import Payload
from autotune.core.plugs.family import Baseline
from autotune.core.task import Task
from autotune.core.task_names import readable_name
from autotune.store.sessions import SessionFigures
from autotune.tuning.result import Spent, TuneResult
from autotune.tuning.samplers.knob_effects import dead_knobs
from autotune.tuning.samplers.objectives import describe_front
from autotune.tuning.stages.assemble import Assembly
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.roofline import needed_flops, share_beside, why_above
from autotune.tuning.stages.task_search import TaskSearch


@dataclass(frozen=True)
class Ran:
    """Time and trials of the search in this run.

    Attributes:
        evaluated: Trials compiled and run now.
        seconds: Time spent searching.
        overhead_seconds: The tuner's own share of it: ask, tell, write scripts, record.
    """

    evaluated: int
    seconds: float
    overhead_seconds: float


def summarize(
    payload: Payload,
    machine: Machine,
    roofs: Roofs,
    baseline: Baseline,
    *,
    parts: Partition,
    searches: Sequence[TaskSearch],
    choices: Sequence[Choice],
    assembly: Assembly,
    figures: SessionFigures,
    ran: Ran,
    start: float,
    floor: float,
    unlike: int,
    said: Sequence[str] = (),
    spent: Spent | None = None,
) -> TuneResult:
    """Everything a caller wants to know, as plain data."""
    tasks = {search.task.tag: search.task for search in searches}.values()
    flops = payload.flops or sum(needed_flops(task) * task.count for task in tasks)
    outcomes: Counter[str] = Counter(trial.outcome for search in searches for trial in search.trials)
    notes = [*payload.notes, *said]
    if not searches:
        notes.append("it has no linalg op on static tensors, so that nothing could be tuned")
    if unlike:
        notes.append(
            f"{unlike} trials in the store are of another machine, compiler, payload text, family or script; "
            "they are not used"
        )
    dead = [(search.task.tag, knob) for search in searches for knob in dead_knobs(search.trials)]
    notes += [f"{tag}: knob {knob} made no difference to the code; a dead knob of its family" for tag, knob in dead]
    notes += [f"{choice.search.task.tag}: {choice.note}" for choice in choices if choice.note]
    beside = figures.reference_seconds
    share = share_beside(flops, figures.best_seconds, beside, machine) if flops and beside is not None else None
    if spent is None and (above := why_above(share, beside, machine, roofs.flops)):
        notes.append(above)
    return TuneResult(
        payload=payload.name,
        machine=machine,
        roofs=roofs,
        baseline_name=baseline.name,
        baseline_seconds=figures.baseline_seconds,
        best_seconds=figures.best_seconds,
        roof_fraction=share,
        configs={c.search.task.tag: dict(c.config) for c in choices if c.config is not None and assembly.uses(c)},
        speedup=figures.speedup,
        max_error=assembly.max_error,
        trials=dict(outcomes),
        evaluated=ran.evaluated,
        seconds=time.perf_counter() - start,
        search_seconds=ran.seconds,
        overhead_seconds=ran.overhead_seconds,
        noise_floor=floor,
        notes=(*notes, *assembly.notes),
        spent=spent,
        oracle=payload.oracle,
        unproved=payload.unproved,
        uncovered=uncovered_shares(parts, choices, figures.best_seconds),
    )


def uncovered_shares(parts: Partition, choices: Sequence[Choice], call_seconds: float) -> tuple[UncoveredShare, ...]:
    """What no schedule changes, with its part of a call: what the tasks that were chosen for do not take of it.

    Args:
        parts: Partition of the payload.
        choices: What was chosen, of all tasks that a family covers.
        call_seconds: Seconds of one call of the whole.
    """
    chosen = {choice.search.task.tag for choice in choices}
    alone = [task for task in parts.tasks if task.tag not in chosen]
    without = (
        UncoveredOp(readable_name(task.tag, task.payload.text), task.count, task.count * work_of(task), NO_FAMILY)
        for task in alone
    )
    times = [(c.search.task.count, c.samples.median) for c in choices if c.samples is not None]
    seconds = sum(count * each for count, each in times) if len(times) == len(choices) else None
    return divide((*parts.uncovered, *without), call_seconds, seconds)


def work_of(task: Task) -> float:
    """Operations of a task without a family: those of its sums, at least one an element."""
    return max(task.payload.flops, float(prod(task.nest.sizes)))


def fronts_of(searches: Sequence[TaskSearch]) -> tuple[str, ...]:
    """A sentence on the front of each task."""
    named = ((readable_name(each.task.tag, each.task.payload.text), each.right) for each in searches)
    return tuple(filter(None, (describe_front(name, trials) for name, trials in named)))
