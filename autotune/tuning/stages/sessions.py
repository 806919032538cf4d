"""Sessions: the whole and its baseline, timed in several processes, since times vary between processes."""

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

QUICK_SECONDS = 0.1  # a baseline's call; slower payloads are timed in the first process only


def measure_sessions(
    run: Run, assembly: Assembly, plain: Candidate | None, another: Callable[[float], AbstractContextManager[Bench]]
) -> tuple[ProcessTimes, ...]:
    """Return the times of the assembly, and for fast payloads those of further processes.

    Args:
        run: The run.
        assembly: Assembly, with the times of the first process.
        plain: Baseline; `None` where it cannot be timed.
        another: Function from a time limit in seconds to a bench on that host with a new process.
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
    """Return the manifest's record of the samples of one process."""
    return ProcessTimes(best.seconds, baseline.seconds if baseline else (), best.reference_seconds)
