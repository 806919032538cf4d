"""Summary of a bundle's winner from its manifest, without compiling or running anything."""

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

OF_A_KNOB = "; a dead knob of its family"  # suffix of a note in older bundles that is not shown


@dataclass(frozen=True)
class TimedTask:
    """One task of the winner.

    Attributes:
        tag: Tag of the task: value of ``autotune.task`` on its ops.
        name: Readable name, unique within the payload.
        schedule: Name of the family; `None` for the plain lowering.
        config: Value of every knob; `None` for the plain lowering.
        count: Number of executions in one call of the whole.
        seconds: Time of one execution of the single task in seconds, in the final race, as in
            `autotune.core.winner_time`; `None` if it was not measured again.
        baseline_seconds: Time of one execution of the baseline in seconds; `None` if it could not be run.
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
        name: Readable name, as in `TimedTask`.
        family: Family of the task, which determines the precision of the rounded operands.
        seconds: Seconds of all executions in a call, measured with the single task in the final race.
        seconds_in: Seconds with the best config of other families and back ends, likewise, by name.
        error: Error of the whole with only this task rounded, relative to the largest value of an output.
    """

    name: str
    family: str
    seconds: float
    seconds_in: dict[str, float]
    error: float


@dataclass(frozen=True)
class Winner:
    """Summary of a bundle.

    Attributes:
        payload: Name of the payload.
        cpu: Processor model of the recording machine.
        isa: Vector extension of that machine.
        roofs: Rates of that machine by name: ``flops``, ``dram_bytes`` and ``l2_bytes`` per second.
        seconds: Time of the whole in seconds per call, as in `autotune.core.winner_time`.
        baseline: Name of the baseline.
        baseline_seconds: Time of the baseline in seconds per call; `None` if it could not be run.
        speedup: Time of the baseline over time of the whole, interleaved.
        roof_fraction: Share of the FMA roof, by the kernel that ran between the samples; if tasks round, of the roofs
            of the units that they use. `None` if unknown.
        max_error: Largest absolute difference to the oracle.
        oracle: Kind of oracle, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its plain lowering was the only oracle.
        noise_floor: Relative difference below which two times count as equal.
        buffers: Intermediates: ``count``, ``peak_bytes`` and ``naive_bytes``; `None` if no arena is planned.
        tasks: Tasks in the order of the payload.
        notes: Warnings and other notes of the tuning, one sentence each.
        command: Command line that repeats the tuning.
        compiler: Provider of MLIR, with its version.
        rounded: Tasks that round their operands.
        error: Allowed error of outputs for that; 0 if none is allowed.
        spent: Measured error, on inputs that were not used in the search.
        uncovered: Operations that no schedule covers, with their share of a call.
        agreement: Share of rows whose argmax is unchanged, required share, and number of rows.
        clock: Time by the clock, in seconds per call.
        unsteady: Reason why times are unreliable, one sentence; empty if they are reliable.
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
        """Return the summary as a JSON object."""
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
    """Summarize a bundle."""
    data = bundle.manifest
    figures = recorded_figures(data)
    flops = data.budget.weighted_flops if data.budget is not None else data.flops
    fma = figures.reference_seconds
    share = share_beside(flops, figures.clock_seconds, fma, data.machine) if flops and fma is not None else None
    budget = data.budget or BudgetRecord(1.0, 0.0, {})
    bounded = None if bundle_may_exceed_roof(bundle) else share
    unsteady = why_unsteady(bounded, figures.interference, fma, data.machine, data.roofs["flops"])
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
    """Return the time of the whole in seconds per call, with the interval of its median over all sessions."""
    interval = median_interval([seconds for session in data.samples for seconds in session.best_seconds])
    interval, best = interval.scaled(1 / figures.drift), figures.best_seconds
    return Interval(min(interval.low, best), best, max(interval.high, best))


def names_in(bundle: BundleFiles) -> dict[str, str]:
    """Return a unique readable name for every task of a bundle, by tag."""
    texts = {tag: bundle.texts.get(f"tasks/{tag}.mlir") for tag in bundle.manifest.tasks}
    if None in texts.values():  # files of tasks are missing: partition the payload
        return {tag: facts.name for tag, facts in facts_of_bundle(bundle).items()}
    return task_names(texts)


def timed_task(tag: str, name: str, task: TaskRecord, quiet: float | None) -> TimedTask:
    """Summarize a task; `quiet` is the FMA kernel's best time on the machine, in seconds per call."""
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
    """Summarize a task that rounds its operands: its time, that of alternatives, and its error."""
    others = {rival: task.count * float(np.median(seconds)) for rival, seconds in task.rivals.items()}
    return RoundedTask(name, task.schedule, task.count * float(np.median(task.seconds)), others, error)
