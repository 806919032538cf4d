"""What a bundle's manifest says of the winner, read for looking at: nothing is compiled or run."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.core.host.files import holds
from autotune.core.space import Value
from autotune.core.stats import Interval, median_interval
from autotune.core.winner_time import winner_time
from autotune.reports.task_facts import facts_of_bundle
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import MANIFEST_FILE, Manifest
from autotune.store.records import BudgetRecord, TaskRecord, UncoveredRecord
from autotune.store.sessions import SessionFigures, recorded_figures, recorded_quiet
from autotune.tuning.stages.roofline import bundle_may_exceed_roof, share_beside, why_unsteady
from autotune.worker.loading.reading import task_names

OF_A_KNOB = "; a dead knob of its family"  # ends a note of earlier bundles, which helps no reader of a winner


@dataclass(frozen=True)
class TimedTask:
    """One task of the winner.

    Attributes:
        tag: Value of ``autotune.task`` on its ops: the task's key.
        name: Name for people, unique within the payload.
        schedule: Name of the family; `None` for the plain lowering.
        config: Value of every knob; `None` for the plain lowering.
        count: Executions in one call of the whole.
        seconds: Seconds of one execution alone, in the final race, as `autotune.core.winner_time` has it; `None` where
            it was not measured again.
        baseline_seconds: Seconds of one execution of the baseline; `None` where it could not be run.
    """

    tag: str
    name: str
    schedule: str | None
    config: dict[str, Value] | None
    count: int
    seconds: Interval | None
    baseline_seconds: float | None


@dataclass(frozen=True)
class RoundedTask:
    """A task of the winner that rounds its operands.

    Attributes:
        name: Name for people, as `TimedTask` has it.
        precision: What operands are rounded to.
        seconds: Seconds of all executions in a call, alone, in the final race.
        seconds_in: The same of the other ways to compute it, by name.
        error: Error of the whole with this task rounded alone, relative to the largest value of an output.
    """

    name: str
    precision: str
    seconds: float
    seconds_in: dict[str, float]
    error: float


@dataclass(frozen=True)
class Winner:
    """A bundle at a glance.

    Attributes:
        payload: Name of the payload.
        cpu: Model of the machine it was recorded on.
        isa: Vector extension of that machine.
        roofs: Rates of that machine by name: ``flops``, ``dram_bytes`` and ``l2_bytes`` a second.
        seconds: Seconds of one call of the whole, as `autotune.core.winner_time` has it.
        baseline: Name of the baseline.
        baseline_seconds: Seconds of one call of the baseline; `None` if it could not be run.
        speedup: Time of the baseline over time of the whole, interleaved.
        roof_fraction: Share of the FMA roof, by the kernel that ran between the samples; where tasks round, of the
            roofs of the units they use. `None` where that is unknown.
        max_error: Largest absolute difference to the oracle.
        oracle: What results were compared with, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and nothing but its own plain lowering said what is right.
        noise_floor: Relative difference below which two times are a tie.
        buffers: Intermediates, ``count``, ``peak_bytes`` and ``naive_bytes``; `None` where no arena is planned.
        tasks: Tasks in the order of the payload.
        notes: Sentences on what did not go as hoped.
        command: Command line that tunes the same.
        compiler: Provider of MLIR, with its version.
        rounded: Tasks that round their operands.
        error: Error that outputs may have for that; 0 where none is allowed.
        spent: Error that they have, on inputs that the search had not seen.
        uncovered: What no schedule changes, with its part of a call.
        agreement: Share of rows whose argmax stays the same, the least that was asked for, and their number.
        clock: Seconds of one call as the clock gave them.
        unsteady: Why times say nothing, a sentence; empty where they do.
    """

    payload: str
    cpu: str
    isa: str
    roofs: dict[str, float]
    seconds: Interval
    baseline: str
    baseline_seconds: float | None
    speedup: Interval | None
    roof_fraction: float | None
    max_error: float
    oracle: str
    unproved: bool
    noise_floor: float
    buffers: dict[str, int] | None
    tasks: tuple[TimedTask, ...]
    notes: tuple[str, ...]
    command: tuple[str, ...]
    compiler: str
    rounded: tuple[RoundedTask, ...] = ()
    error: float = 0.0
    spent: float = 0.0
    uncovered: tuple[UncoveredRecord, ...] = ()
    agreement: tuple[float, float, int] = (1.0, 0.0, 0)
    clock: float | None = None
    unsteady: str = ""

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def is_bundle(location: str | Path) -> bool:
    """Return whether a folder holds a bundle."""
    return holds(location, MANIFEST_FILE)


def read_winner(folder: Path) -> Winner:
    """Read and check a bundle.

    Raises:
        BundleError: The bundle is incomplete or edited.
    """
    return describe(read_bundle(folder))


def describe(bundle: BundleFiles) -> Winner:
    """What a bundle's manifest says."""
    data = bundle.manifest
    figures = recorded_figures(data)
    flops = data.budget.weighted_flops if data.budget is not None else data.flops
    beside = figures.reference_seconds
    share = share_beside(flops, figures.clock_seconds, beside, data.machine) if flops and beside is not None else None
    budget = data.budget or BudgetRecord(1.0, 0.0, {})
    bounded = None if bundle_may_exceed_roof(bundle) else share
    unsteady = why_unsteady(bounded, figures.interference, beside, data.machine, data.roofs["flops"])
    names = names_in(bundle)
    return Winner(
        payload=data.payload,
        cpu=data.machine.cpu,
        isa=data.machine.isa,
        roofs=dict(data.roofs),
        seconds=seconds_of(data, figures),
        baseline=data.baseline.name,
        baseline_seconds=figures.baseline_seconds,
        speedup=data.speedup,
        roof_fraction=share,
        max_error=max(output.max_error for output in data.numerics.outputs.values()),
        oracle=data.numerics.oracle,
        unproved=data.numerics.unproved,
        noise_floor=data.noise_floor,
        buffers=asdict(data.buffers) if data.buffers is not None else None,
        tasks=tuple(timed_task(tag, names[tag], task, recorded_quiet(data)) for tag, task in data.tasks.items()),
        notes=tuple(note for note in data.notes if not note.endswith(OF_A_KNOB)),
        command=data.command,
        compiler=data.versions.compiler,
        rounded=tuple(rounded_task(names[tag], data.tasks[tag], error) for tag, error in budget.tasks.items()),
        error=budget.error if data.budget is not None else 0.0,
        spent=budget.spent,
        uncovered=data.uncovered,
        agreement=(budget.agrees, budget.agreement, budget.rows),
        clock=figures.clock_seconds,
        unsteady=unsteady,
    )


def seconds_of(data: Manifest, figures: SessionFigures) -> Interval:
    """Seconds a call of the whole, with the interval of its median over all sessions."""
    found = median_interval([seconds for session in data.samples for seconds in session.best_seconds])
    found, best = found.scaled(1 / figures.drift), figures.best_seconds
    return Interval(min(found.low, best), best, max(found.high, best))


def names_in(bundle: BundleFiles) -> dict[str, str]:
    """A name for people for every task of a bundle, by tag."""
    texts = {tag: bundle.texts.get(f"tasks/{tag}.mlir") for tag in bundle.manifest.tasks}
    if None in texts.values():  # left out: those of the payload's own tasks
        return {tag: facts.name for tag, facts in facts_of_bundle(bundle).items()}
    return task_names(texts)


def timed_task(tag: str, name: str, task: TaskRecord, quiet: float | None) -> TimedTask:
    """A task's share of a manifest; the FMA kernel's best on the machine is `quiet`."""
    return TimedTask(
        tag=tag,
        name=name,
        schedule=task.schedule if task.config is not None else None,
        config=task.config,
        count=task.count,
        seconds=winner_time(task.seconds, task.reference_seconds, quiet).seconds if task.seconds else None,
        baseline_seconds=task.baseline_seconds,
    )


def rounded_task(name: str, task: TaskRecord, error: float) -> RoundedTask:
    """A task that rounds its operands, with what it brings and what it costs."""
    others = {kind: task.count * float(np.median(seconds)) for kind, seconds in task.rivals.items()}
    return RoundedTask(name, task.schedule, task.count * float(np.median(task.seconds)), others, error)
