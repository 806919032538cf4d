"""Sessions: the whole beside its baseline, timed by several processes, for each has a luck of its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

from autotune.core.bench import Bench
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Job
from autotune.core.trial import Samples
from autotune.store.records import ProcessTimes
from autotune.tuning.stages.assemble import MODEL_EFFORT, Assembly
from autotune.tuning.stages.run import Run
from autotune.worker.isolation.limits import MODEL_SECONDS

QUICK_SECONDS = 0.1  # a baseline's call; slower payloads are timed by the first process alone


def measure_sessions(
    run: Run, assembly: Assembly, plain: Candidate | None, another: Callable[[float], AbstractContextManager[Bench]]
) -> tuple[ProcessTimes, ...]:
    """What the assembly measured, and for quick payloads what fresh processes measure.

    Args:
        run: The run.
        assembly: What the first process measured.
        plain: The baseline; `None` where it cannot be timed.
        another: Function that gives a bench on that host with a fresh process, for so many seconds a job.
    """
    sessions = [session_of(assembly.best, assembly.baseline)]
    whole = assembly.candidate(run.parts.payload.text)
    if plain is None or assembly.baseline is None or median(assembly.baseline.seconds) > QUICK_SECONDS:
        return tuple(sessions)
    for _ in range(1, run.care.sessions):
        with another(MODEL_SECONDS) as worker:
            theirs, ours = worker.evaluate(Job(run.payload, (plain, whole), run.machine, run.seed, MODEL_EFFORT))
        if theirs.samples is not None and ours.samples is not None:
            sessions.append(session_of(ours.samples, theirs.samples))
    return tuple(sessions)


def session_of(best: Samples, baseline: Samples | None) -> ProcessTimes:
    """Samples of one process as a manifest holds them."""
    return ProcessTimes(best.seconds, baseline.seconds if baseline else (), best.reference_seconds)
