"""Construction of candidates from steps of a script, for tasks and whole payloads, and from default configs."""

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
    """Return the candidate of a task alone: its whole script, or an external kernel.

    Args:
        step: Step of the task.
        threads: Number of threads of parallel loops.
    """
    return Candidate(script_of([step]), tail(threads), panels=panels_of([step]), kernels=kernels_of([step]))


def candidate_whole(steps: Sequence[Step], threads: int, tagged: str) -> Candidate:
    """Return the candidate of a module: one script for all tasks, and external kernels.

    Args:
        steps: Step of each task, with user scripts instantiated by `written`.
        threads: Number of threads of parallel loops.
        tagged: Text of the module, whose ops carry the tags of their tasks.
    """
    return Candidate(assemble(steps), tail(threads), tagged, panels_of(steps), kernels=kernels_of(steps))


def default_candidate(
    parts: Partition,
    machine: Machine,
    choose: Callable[[Task, Machine], Family | None] = family_as_typed,
    change: Callable[[Task, Family, Config], Config] = lambda _, __, config: config,
) -> Candidate:
    """Return the candidate of a payload without any search: each task by the default config of a family.

    Args:
        parts: Partition of the payload.
        machine: Machine that it is compiled for.
        choose: Function that returns the family of a task; `None` for the plain lowering.
        change: Function from a task, its family and the default config to the config.
    """
    steps = []
    for task in parts.tasks:
        family = choose(task, machine)
        if family is not None:
            steps.append(write_step(task, family, change(task, family, family.default(task, machine)), machine))
    return candidate_whole(steps, machine.threads, parts.payload.text)
