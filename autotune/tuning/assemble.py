"""The whole model: every task's choice in one script, proved right and timed against the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.compiler.lower import TAIL
from autotune.compiler.tasks.partition import Partition
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.family import Baseline
from autotune.core.machine import Machine
from autotune.core.payload import Payload
from autotune.core.script import Step, assemble, panels_of
from autotune.core.trial import Samples
from autotune.tuning.choose import Choice
from autotune.tuning.own import written
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

    def candidates(self, baseline: Baseline, tagged: str) -> tuple[Candidate, Candidate]:
        """The baseline and the assembled payload, as a worker takes them.

        Args:
            baseline: The baseline.
            tagged: Text of the payload whose ops carry the tags of their tasks.
        """
        return Candidate(None, baseline.pipeline), Candidate(self.script, TAIL, tagged, self.panels)

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
    baseline: Baseline,
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
        candidates = (Candidate(None, baseline.pipeline), Candidate(script, TAIL, parts.payload.text, panels))
        job = Job(payload, candidates, machine, seed=seed, effort=MODEL_EFFORT)
        theirs, ours = worker.evaluate(job, seconds=MODEL_SECONDS)
        if ours.samples is None and theirs.samples is None and ours.outcome == theirs.outcome:
            # a process that died takes both candidates with it: see what ours does alone
            alone = Job(payload, candidates[1:], machine, seed=seed, effort=MODEL_EFFORT)
            (ours,) = worker.evaluate(alone, seconds=MODEL_SECONDS)
        tried.append(ours)
        if ours.samples is not None:
            if theirs.samples is None:
                notes.append(f"baseline {baseline.name} did not run ({theirs.outcome}: {theirs.diagnostic})")
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


def fallbacks(choices: Sequence[Choice]) -> list[tuple[list[Choice], list[str]]]:
    """Choices to try in turn: all choices, then without the fallback families, then none."""
    special = [choice for choice in choices if not choice.search.family.fallback]
    attempts: list[tuple[list[Choice], list[str]]] = [(list(choices), [])]
    if len(special) < len(choices) and special:
        attempts.append((special, ["tasks of fallback families keep the plain lowering"]))
    attempts.append(([], ["no schedule is applied"]))
    return attempts
