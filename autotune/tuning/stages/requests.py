"""Requests of a search to an evaluator, and the identity by which trials of two sweeps are comparable."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from autotune.compiler.lowering.pipeline import compilation
from autotune.core.errors import KernelError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import ProgramIdentity
from autotune.core.scripts.assembly import DESTINATIONS, LOWERING
from autotune.core.space import Space, Value
from autotune.core.task import Task
from autotune.core.trial import Outcome, Reason, Trial
from autotune.registry import first_name

SAME_SCRIPT = Evaluation("duplicate", diagnostic="writes the same script as an earlier trial")


@dataclass(frozen=True)
class TrialRequest:
    """A request to evaluate a config.

    Attributes:
        config: Value of every knob.
        program: Identity of the config's program.
        key: Key of its trial.
        job: Work for an evaluator.
        reason: Why it was proposed.
    """

    config: Mapping[str, Value]
    program: ProgramIdentity
    key: str
    job: Job
    reason: Reason | None = None

    def trial(self, evaluation: Evaluation, *, task: str, number: int, family: str, original: Trial | None) -> Trial:
        """Return the trial of an evaluation.

        Args:
            evaluation: Evaluation of the candidate.
            task: Tag of the task.
            number: Position in the task's search.
            family: Name of the family.
            original: Earlier trial that it duplicates; `None` if there is none.
        """
        return Trial(
            task=task,
            number=number,
            config=dict(self.config),
            outcome=evaluation.outcome,
            key=self.key,
            family=family,
            samples=evaluation.samples,
            max_error=evaluation.max_error,
            diagnostic=evaluation.diagnostic,
            phases=evaluation.phases,
            scheduled=evaluation.scheduled,
            compiled=evaluation.compiled,
            twin=original.key if original is not None else "",
            reason=self.reason,
        )


def shared(threads: int) -> str:
    """Return the text of the lowering and pass pipeline that all candidates with a number of threads share."""
    return DESTINATIONS + LOWERING + compilation(threads)


def identity_of(task: Task, family: Family, machine: Machine, space: Space, compiler: str) -> dict[str, str]:
    """Return the entries that must be equal for the trials of two sweeps of a task to be comparable."""
    identity = {
        "payload_sha256": task.payload.sha256,
        "machine": machine.fingerprint,
        "compiler": compiler,
        "pipeline": sha256(shared(machine.threads).encode()).hexdigest(),
        "schedule": first_name(family.name),
        "knobs": sha256(repr(space.knobs).encode()).hexdigest(),
    }
    identity |= family.identity
    if task.payload.error:
        identity["error"] = f"{task.payload.error:g}"
    if machine.pages != "huge":
        identity["pages"] = machine.pages  # left out for huge pages, as in stores from before there was a choice
    if machine.threads > 1:
        identity["threads"] = str(machine.threads)
    return identity


def unmade(error: KernelError) -> Evaluation:
    """Return the evaluation of a config whose external code cannot be generated."""
    return Evaluation(cast(Outcome, error.outcome), diagnostic=str(error))
