"""Steps of a script as a worker takes them: of one task alone, or of the tasks of a whole module."""

from collections.abc import Sequence

from autotune.compiler.lowering.pipeline import tail
from autotune.core.candidate import Candidate
from autotune.core.scripts.assembly import Step, assemble, kernels_of, panels_of, script_of


def candidate_alone(step: Step, threads: int = 1) -> Candidate:
    """The whole script of a task alone, or the code of a back end.

    Args:
        step: What is done to the task.
        threads: Number of threads that parallel loops run on.
    """
    return Candidate(script_of([step]), tail(threads), panels=panels_of([step]), kernels=kernels_of([step]))


def candidate_whole(steps: Sequence[Step], threads: int, tagged: str) -> Candidate:
    """One script for all tasks of a module, and the code of back ends for theirs.

    Args:
        steps: What is done to each task; each is written, as `written` does.
        threads: Number of threads that parallel loops run on.
        tagged: Text of the module, whose ops carry the tags of their tasks.
    """
    return Candidate(assemble(steps), tail(threads), tagged, panels_of(steps), kernels=kernels_of(steps))
