"""Direct measurement of candidates: configs of a task's family, or user scripts.

There is no search and no store: each candidate is verified and timed, and the results are returned as a table.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.compiler.passes.pipelines import tail
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort, Evaluation, Job, TimeLimits
from autotune.core.options import LEAST_TIMEOUT, MOST_COUNT, MOST_SECONDS, check_real, check_seed, check_whole
from autotune.core.plugs.program import WrittenScript
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.assembly import Step
from autotune.core.space import Value
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.stages.roofline import share_of_roof
from autotune.tuning.tunable import TransformScript, TunableTask
from autotune.worker.worker import Worker

if TYPE_CHECKING:
    import pandas as pd

ENTRY = "@__transform_main"


def measure(
    task: TunableTask,
    candidates: Sequence[Mapping[str, Value] | TransformScript],
    *,
    samples: int = 30,
    seconds: float = 1.0,
    timeout: float = 60.0,
    seed: int = 0,
) -> "pd.DataFrame":
    """Compile, verify and time candidates of a task, interleaved in one isolated process.

    Args:
        task: One of `tasks`.
        candidates: Configs of the task's family, in which missing knobs have their default values; or scripts.
        samples: Largest number of samples of each.
        seconds: Approximate duration of the measurement of all candidates, in seconds.
        timeout: Time limit of the compilation, and of the run, of each, in seconds.
        seed: Seed of the input data.

    Returns:
        One row a candidate, in order: ``candidate`` (what differs from the default, or ``script``), ``outcome`` (as in
        a store; ``constraint`` for a config that breaks a constraint), ``us`` (median microseconds a call), ``gflops``,
        ``of_roof`` (share of the FMA roof measured beside it), ``max_error`` (largest absolute difference to the
        oracle) and ``diagnostic``. Times are missing unless the outcome is ``ok`` or ``noisy``.

    Raises:
        OptionError: A number is out of range.
        SpaceError: A knob or value is not of the family's space.
        PayloadError: There is no candidate.
    """
    import pandas as pd  # noqa: PLC0415 - takes half a second, which only tables need

    if not candidates:
        raise PayloadError("there must be a candidate to measure, got none; give a config or a script")
    check_whole("samples", samples, 1, MOST_COUNT)
    check_real("seconds", seconds, 0.0, MOST_SECONDS)
    check_real("timeout", timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    check_seed(seed)
    broken = [broken_constraint(task, each) for each in candidates]
    built = tuple(candidate_of(task, each) for each, why in zip(candidates, broken, strict=True) if why is None)
    limits = TimeLimits(compile_seconds=timeout, run_seconds=timeout)
    job = Job(task.payload, built, task.machine, seed, Effort(samples, seconds), time_limits=limits)
    with Worker(2 * timeout * len(built) + seconds, threads=task.machine.threads) as worker:
        evaluations = iter(worker.evaluate(job) if built else ())
    rows = []
    for each, why in zip(candidates, broken, strict=True):
        evaluation = next(evaluations) if why is None else Evaluation("constraint", diagnostic=why)
        rows.append({"candidate": describe(task, each), **row(task, evaluation)})
    return pd.DataFrame(rows)


def broken_constraint(task: TunableTask, candidate: Mapping[str, Value] | TransformScript) -> str | None:
    """Return the constraint that a config violates; `None` for none, and for scripts.

    Raises:
        SpaceError: A knob or value is not of the space.
    """
    if isinstance(candidate, TransformScript):
        return None
    family = task.family()
    config = family.default(**candidate)
    family.space.check(config)
    return family.space.broken_constraint(config)


def candidate_of(task: TunableTask, candidate: Mapping[str, Value] | TransformScript) -> Candidate:
    """Return the candidate of a config or script."""
    if not isinstance(candidate, TransformScript):
        step = task.family().step(candidate)
    elif ENTRY in candidate.text:
        panels = ((task.tag, candidate.panel),) if candidate.panel else ()
        return Candidate(candidate.text, tail(task.machine.threads), panels=panels)
    else:
        step = Step(task.tag, 1, WrittenScript(candidate.text, rewrites=Rewrites(candidate.panel)))
    return candidate_alone(step, task.machine.threads)


def describe(task: TunableTask, candidate: Mapping[str, Value] | TransformScript) -> str:
    """Return a short description of a candidate: its differences to the default config."""
    if isinstance(candidate, TransformScript):
        return "script"
    default = task.family().default()
    changed = [f"{name}={value}" for name, value in candidate.items() if default[name] != value]
    return " ".join(changed) or "default"


def row(task: TunableTask, evaluation: Evaluation) -> dict[str, str | float | None]:
    """Return the columns of an evaluation, in the units of the table."""
    samples, flops = evaluation.samples, task.task.needed_flops
    rated = samples is not None and flops > 0
    return {
        "outcome": evaluation.outcome,
        "us": 1e6 * samples.median if samples is not None else None,
        "gflops": 1e-9 * flops / samples.median if samples is not None and rated else None,
        "of_roof": share_of_roof(flops, samples, task.machine) if samples is not None and rated else None,
        "max_error": evaluation.max_error,
        "diagnostic": evaluation.diagnostic,
    }
