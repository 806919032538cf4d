"""The whole model: every task's choice in one script, proved right and timed against the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.compiler.lower import TAIL
from autotune.compiler.tasks.partition import Partition
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.machine import Machine
from autotune.core.payload import Payload
from autotune.core.script import Step, assemble, panels_of
from autotune.core.trial import Samples
from autotune.tuning.choose import Choice
from autotune.tuning.own import written
from autotune.tuning.slow_baseline import TimedBaseline
from autotune.worker.limits import MODEL_SECONDS
from autotune.worker.worker import Worker

MODEL_EFFORT = Effort(samples=30, seconds=5.0, sample_seconds=0.01)


@dataclass(frozen=True)
class Assembly:
    """A whole payload with a schedule for each of its tasks.

    Attributes:
        script: The transform script.
        panels: Tags whose weight is stored in panels, with their columns.
        tags: Tasks it schedules; the others keep the plain lowering.
        best: Times of the assembled payload.
        baseline: Times of the baseline, sample by sample beside `best`; `None` if it could not be run.
        max_error: Largest absolute difference to the oracle.
        buffers: Plan of the arena that intermediates lie in.
        notes: Notes on what was left out, and why.
    """

    script: str
    panels: tuple[tuple[str, int], ...]
    tags: tuple[str, ...]
    best: Samples
    baseline: Samples | None
    max_error: float | None
    buffers: BufferPlan | None = None
    notes: tuple[str, ...] = ()

    def candidate(self, tagged: str) -> Candidate:
        """The assembled payload as a worker takes it, from the text whose ops carry the tags of their tasks."""
        return Candidate(self.script, TAIL, tagged, self.panels)

    def uses(self, choice: Choice) -> bool:
        """Tell whether the script schedules the choice's task."""
        return choice.search.task.tag in self.tags


def script_steps(choices: Sequence[Choice]) -> list[Step]:
    """The steps of one script for all tasks that have a config."""
    steps = []
    for choice in choices:
        if choice.config is not None:
            task = choice.search.task
            note = f"\n{task.ops} op(s), run {task.count} time(s) a call"
            steps.append(choice.search.script_step(choice.config, note=note))
    return steps


def assemble_model(
    payload: Payload,
    parts: Partition,
    choices: Sequence[Choice],
    baseline: TimedBaseline,
    *,
    machine: Machine,
    seed: int,
    worker: Worker,
) -> Assembly:
    """Assemble, verify and time; leave tasks out until the whole is right.

    Raises:
        ScheduleError: Not even the payload without any schedule compiles and verifies.
    """
    notes: list[str] = []
    tried: list[Evaluation] = []
    for kept, why in fallbacks(choices):
        steps = written(script_steps(kept))
        script, panels = assemble(steps), panels_of(steps)
        candidate = Candidate(script, TAIL, parts.payload.text, panels)
        theirs, ours = time_both(payload, baseline.candidate, candidate, machine=machine, seed=seed, worker=worker)
        tried.append(ours)
        if ours.samples is not None:
            notes += baseline.notes
            if theirs.samples is None and baseline.candidate is not None:
                notes.append(f"baseline {baseline.baseline.name} did not run ({theirs.outcome}: {theirs.diagnostic})")
            tags = tuple(c.search.task.tag for c in kept if c.config is not None)
            return Assembly(
                script=script,
                panels=panels,
                tags=tags,
                best=ours.samples,
                baseline=theirs.samples,
                max_error=ours.max_error,
                buffers=ours.buffers,
                notes=(*notes, *why),
            )
        notes.append(f"the whole was {ours.outcome} ({ours.diagnostic})")
    raise ScheduleError(
        f"{payload.name} must compile and verify without any schedule, it was {tried[-1].outcome}: "
        f"{tried[-1].diagnostic}"
    )


def time_both(
    payload: Payload, baseline: Candidate | None, candidate: Candidate, *, machine: Machine, seed: int, worker: Worker
) -> tuple[Evaluation, Evaluation]:
    """What became of a baseline, and of ours beside it; of ours alone where there is no baseline, or both fell."""
    fallen = Evaluation("timed-out")
    if baseline is not None:
        job = Job(payload, (baseline, candidate), machine, seed=seed, effort=MODEL_EFFORT)
        fallen, ours = worker.evaluate(job, seconds=MODEL_SECONDS)
        if ours.samples is not None or fallen.samples is not None or ours.outcome != fallen.outcome:
            return fallen, ours
        # a process that died takes both candidates with it: see what ours does alone
    (ours,) = worker.evaluate(Job(payload, (candidate,), machine, seed=seed, effort=MODEL_EFFORT), MODEL_SECONDS)
    return fallen, ours


def fallbacks(choices: Sequence[Choice]) -> list[tuple[list[Choice], list[str]]]:
    """Choices to try in turn: all choices, then without the fallback families, then none."""
    special = [choice for choice in choices if not choice.search.family.fallback]
    attempts: list[tuple[list[Choice], list[str]]] = [(list(choices), [])]
    if len(special) < len(choices) and special:
        attempts.append((special, ["tasks of fallback families keep the plain lowering"]))
    attempts.append(([], ["no schedule is applied"]))
    return attempts
