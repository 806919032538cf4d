"""Candidates of tasks and of whole payloads: steps of a script as a worker takes them, and default configs."""

from collections.abc import Callable, Sequence

from autotune.compiler.passes.pipelines import tail
from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.plugs.family import Family
from autotune.core.scripts.assembly import Step, assemble, kernels_of, panels_of, script_of, write_step
from autotune.core.space import Config
from autotune.core.task import Task
from autotune.tuning.half_results import family_as_typed


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


def default_candidate(
    parts: Partition,
    machine: Machine,
    choose: Callable[[Task, Machine], Family | None] = family_as_typed,
    change: Callable[[Task, Family, Config], Config] = lambda _, __, config: config,
) -> Candidate:
    """How a payload is compiled without any search: each task by the default config of the family that is chosen.

    Args:
        parts: The payload.
        machine: Machine that it is compiled for.
        choose: Family of a task; `None` leaves the task as it is.
        change: Config of a task, given the family and the default.
    """
    steps = []
    for task in parts.tasks:
        family = choose(task, machine)
        if family is not None:
            steps.append(write_step(task, family, change(task, family, family.default(task, machine)), machine))
    return candidate_whole(steps, machine.threads, parts.payload.text)
