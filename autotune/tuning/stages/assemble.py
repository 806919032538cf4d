"""Assembly of the whole model: the choices of all tasks in one script, verified and timed against the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.compiler.passes.pipelines import tail
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.scripts.assembly import Step
from autotune.core.trial import Samples
from autotune.tuning.candidates import candidate_whole
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.slow_baseline import TimedBaseline, reason
from autotune.tuning.stages.user_script import written

MODEL_EFFORT = Effort(samples=30, seconds=5.0, sample_seconds=0.01)
PROBE_EFFORT = Effort(samples=1, seconds=0.0)


@dataclass(frozen=True)
class Assembly:
    """A whole payload with a schedule for each of its tasks.

    Attributes:
        script: Transform script.
        panels: Pairs of a tag whose weight is packed into panels, and the columns of a panel.
        tags: Tasks with a schedule or an external kernel; the others keep the plain lowering.
        best: Times of the assembled payload.
        baseline: Times of the baseline, interleaved with `best`; `None` if it could not be run.
        max_error: Largest absolute difference to the oracle.
        buffers: Plan of the arena of intermediate buffers.
        notes: Notes on tasks that were left out, with the reasons.
        threads: Number of threads of parallel loops.
        why_no_baseline: Reason why the baseline was not timed; empty if it was.
        kernels: External kernels that compute some of the tasks.
    """

    script: str
    panels: tuple[tuple[str, int], ...]
    tags: tuple[str, ...]
    best: Samples
    baseline: Samples | None
    max_error: float | None
    buffers: BufferPlan | None = None
    notes: tuple[str, ...] = ()
    threads: int = 1
    why_no_baseline: str = ""
    kernels: tuple[ExternalKernel, ...] = ()

    def candidate(self, tagged: str) -> Candidate:
        """Return the candidate of the assembled payload, from the text whose ops carry the tags of their tasks."""
        return Candidate(self.script, tail(self.threads), tagged, self.panels, kernels=self.kernels)

    def uses(self, choice: Choice) -> bool:
        """Return whether the script schedules the choice's task."""
        return choice.search.task.tag in self.tags


def script_steps(choices: Sequence[Choice]) -> list[Step]:
    """Return the steps of a script for all tasks that have a config."""
    steps = []
    for choice in choices:
        if choice.config is not None:
            task = choice.search.task
            note = f"\n{task.occurrences} op(s), run {task.count} time(s) a call"
            steps.append(choice.search.made(choice.search.script_step(choice.config, note=note)))
    return steps


def whole_candidate(choices: Sequence[Choice], threads: int, tagged: str) -> Candidate:
    """Return the candidate of the whole: one script for all tasks that have a config, and external kernels.

    Args:
        choices: Choices of the tasks that have a config.
        threads: Number of threads of parallel loops.
        tagged: Text of the whole, whose ops carry the tags of their tasks.
    """
    return candidate_whole(written(script_steps(choices)), threads, tagged)


def assemble_model(run: Run, choices: Sequence[Choice], baseline: TimedBaseline) -> Assembly:
    """Assemble, verify and time the whole; a task whose schedule breaks it keeps the plain lowering, with a note.

    Args:
        run: The run.
        choices: Choice of each task.
        baseline: Baseline that the whole is timed beside.

    Raises:
        ScheduleError: The payload does not compile and verify even without schedules, or its oracle takes too long.
    """
    model = WholeModel(run, baseline)
    scheduled = [choice for choice in choices if choice.config is not None]
    ours, theirs = model.measure(scheduled)
    check_ends(run.payload.name, ours)
    notes: list[str] = []
    if ours.samples is None and scheduled:
        scheduled, notes = model.leave_out(scheduled, ours)
        ours, theirs = model.measure(scheduled)
    if ours.samples is None and scheduled:
        notes = [f"the whole was {ours.outcome} ({ours.diagnostic})", "no schedule is applied"]
        scheduled = []
        ours, theirs = model.measure(scheduled)
    if ours.samples is None:
        raise ScheduleError(
            f"{run.payload.name} must compile and verify without any schedule, it was {ours.outcome}: {ours.diagnostic}"
        )
    notes += baseline.notes
    why_no_baseline = "" if theirs.samples else baseline.why_not or reason(theirs)
    if why_no_baseline and not baseline.why_not:
        notes.append(f"baseline {baseline.baseline.name} did not run ({why_no_baseline})")
    whole = model.candidate(scheduled)
    return Assembly(
        script=str(whole.script),
        panels=whole.panels,
        kernels=whole.kernels,
        tags=tuple(choice.search.task.tag for choice in scheduled),
        best=ours.samples,
        baseline=theirs.samples,
        max_error=ours.max_error,
        buffers=ours.buffers,
        notes=tuple(notes),
        threads=run.machine.threads,
        why_no_baseline=why_no_baseline,
    )


def check_ends(name: str, evaluation: Evaluation) -> None:
    """Raise if the oracle of a payload exceeded the time limit of a job, as it would with any other schedule.

    Raises:
        ScheduleError: The job timed out before anything was compiled.
    """
    if evaluation.outcome == "timed-out" and not evaluation.phases:
        raise ScheduleError(
            f"the oracle of {name} must end in time, it was {evaluation.outcome}: {evaluation.diagnostic}; "
            "give a longer --timeout, or change a loop of it that does not end"
        )


@dataclass(frozen=True)
class WholeModel:
    """Evaluation of a whole payload with the schedules of some of its tasks.

    Attributes:
        run: The run whose payload is the whole.
        baseline: Baseline that it is timed beside, and the part of its call that is timed.
    """

    run: Run
    baseline: TimedBaseline

    def candidate(self, choices: Sequence[Choice]) -> Candidate:
        """Return the candidate with the schedules of some tasks; all others keep the plain lowering."""
        return whole_candidate(choices, self.run.machine.threads, self.run.parts.payload.text)

    def measure(self, choices: Sequence[Choice]) -> tuple[Evaluation, Evaluation]:
        """Verify and time the whole with some schedules, interleaved with the baseline, where that can be timed."""
        baseline, scheduled = self.baseline.candidate, self.candidate(choices)
        theirs = Evaluation("timed-out")
        if baseline is not None:
            theirs, ours = self.evaluate((baseline, scheduled), MODEL_EFFORT)
            if ours.samples is not None or theirs.samples is not None or ours.outcome != theirs.outcome:
                return ours, theirs
            # if the process died, both candidates have its outcome: evaluate ours alone
        (ours,) = self.evaluate((scheduled,), MODEL_EFFORT)
        return ours, theirs

    def evaluate(self, candidates: tuple[Candidate, ...], effort: Effort) -> list[Evaluation]:
        """Verify and time candidates of the whole."""
        job = Job(self.run.payload, candidates, self.run.machine, seed=self.run.seed, effort=effort)
        return self.run.worker.evaluate(job, seconds=self.run.whole_seconds)

    def probe(self, choices: Sequence[Choice]) -> Evaluation:
        """Verify the whole with some schedules, with a single sample."""
        (ours,) = self.evaluate((self.candidate(choices),), PROBE_EFFORT)
        return ours

    def leave_out(self, choices: Sequence[Choice], ours: Evaluation) -> tuple[list[Choice], list[str]]:
        """Return the choices with which the whole verifies, and a note on each of the others.

        Bisects the remaining choices for the first one with which the whole fails, until the rest verifies.

        Args:
            choices: Choices with which the whole fails.
            ours: Evaluation of the whole with them.
        """
        right: list[Choice] = []
        rest, notes = list(choices), list[str]()
        while rest and ours.samples is None:
            good, bad = 0, len(rest)
            while bad - good > 1:
                middle = (good + bad) // 2
                probe = self.probe([*right, *rest[:middle]])
                good, bad, ours = (middle, bad, ours) if probe.samples is not None else (good, middle, probe)
            tag, text = rest[good].search.task.tag, f"{ours.outcome} ({ours.diagnostic})"
            notes.append(f"{tag} keeps the plain lowering: with its schedule the whole was {text}")
            right, rest = [*right, *rest[:good]], rest[bad:]
            ours = self.probe([*right, *rest])
        return [*right, *rest], notes
