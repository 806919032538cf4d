"""The whole payload with the default config of every task: what it is compiled with before anything is searched."""

from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.scripts.assembly import write_step
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_whole


def default_candidate(parts: Partition, machine: Machine) -> Candidate:
    """How a payload is compiled without any search."""
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        if family is not None:
            steps.append(write_step(task, family, family.default(task, machine), machine))
    return candidate_whole(steps, machine.threads, parts.payload.text)
