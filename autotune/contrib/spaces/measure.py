"""Recording of a part of a task's search space: every config is measured, by the search that `tune` uses."""

from dataclasses import dataclass, replace
from pathlib import Path

from autotune.contrib.spaces.part import PartFamily, part_of
from autotune.core.errors import ScheduleError, StoreError
from autotune.core.evaluator import Effort, Evaluation, Evaluator, Job
from autotune.core.host.machine import Machine, this_machine
from autotune.core.listener import SILENT, Listener
from autotune.core.options import LEAST_TIMEOUT, MOST_COUNT, MOST_SECONDS, check_real, check_seed, check_whole
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.task import Task
from autotune.registry import family_for
from autotune.store.recording import Recording, write_recording
from autotune.store.store import Store
from autotune.tuning.stages.record import versions
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch

EFFORT = Effort(samples=16, seconds=0.25)


@dataclass(frozen=True)
class RecordOptions:
    """Options of a recording.

    Attributes:
        share: Fraction of the valid configs to record.
        most: Maximum number of configs.
        seed: Seed of the choice of the part, the order and the input data.
    """

    share: float = 1.0
    most: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_real("share", self.share, 1e-9, 1.0, example=0.2)
        check_whole("trials", self.most, 1, MOST_COUNT)
        check_seed(self.seed)


class Thorough:
    """Evaluator wrapper that measures every candidate with the same effort.

    A search would abandon candidates early that are much slower than its best one.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def evaluate(self, job: Job) -> list[Evaluation]:
        """Evaluate a job with `EFFORT`."""
        return self.evaluator.evaluate(replace(job, best_seconds=None, effort=EFFORT))


def check_timeout(seconds: float) -> None:
    """Check the timeout of a candidate.

    Raises:
        OptionError: The number is out of range.
    """
    check_real("timeout", seconds, LEAST_TIMEOUT, MOST_SECONDS, example=60)


def task_named(payload: Payload, tasks: tuple[Task, ...], tag: str) -> tuple[Task, Family]:
    """Return the task whose space is recorded, and the family that covers it.

    Raises:
        ScheduleError: No covered task has this tag, or several are covered and no tag is given.
    """
    covered = {task.tag: (task, family) for task in tasks if (family := family_for(task)) is not None}
    if not tag and len(covered) == 1:
        return next(iter(covered.values()))
    if tag not in covered:
        have = ", ".join(covered) or "none that can be tuned"
        raise ScheduleError(f"--task must name a task of {payload.name}: {have}; got {tag!r}")
    return covered[tag]


def journal_of(file: Path) -> Path:
    """Return the path of the store that holds the trials of a recording until it is finished.

    Raises:
        StoreError: The recording exists and is finished.
    """
    journal = file.with_name(file.name + ".journal")
    if file.exists() and not journal.exists():
        raise StoreError(f"-o must name a new file, {file} is finished; move it away or name another")
    return journal


def record_space(
    payload: Payload,
    task: Task,
    family: Family,
    *,
    file: Path,
    options: RecordOptions,
    evaluator: Evaluator,
    listener: Listener = SILENT,
) -> Recording:
    """Measure a part of a task's search space and write it to a file, also when interrupted; a second call resumes.

    Args:
        payload: Payload of the task.
        task: Task whose space is recorded.
        family: Family that writes the scripts.
        file: File to write; until it is finished, trials are in a store beside it.
        options: Options of the recording.
        evaluator: Evaluator that compiles, verifies and times candidates.
        listener: Notified of every trial.

    Raises:
        StoreError: The file exists already, or cannot be written.
        KeyboardInterrupt: Raised after the trials measured so far were written.
    """
    machine, journal, thorough = this_machine(), journal_of(file), Thorough(evaluator)
    whole, default = family.space(task, machine), family.default(task, machine)
    listener.stage("choosing the part")
    part = part_of(whole, default, share=options.share, most=options.most, seed=options.seed)
    valid = sum(1 for _ in part.configs())
    listener.note(f"{valid} configs are recorded of {whole.size} combinations, with constraints between them")
    with Store.open(journal) as store:
        search = TaskSearch.open(
            task,
            PartFamily(family, part),
            SearchSetting(machine, store, payload.name, "grid", options.seed),
        )
        try:
            while (stepped := search.step(thorough)) is not None:
                listener.trial(stepped[0], len(search.trials), search.best_seconds)
        finally:
            recording = recording_of(payload, search, machine, options, combinations=whole.size, valid=valid)
            write_recording(file, recording)
    journal.unlink()
    journal.with_name(journal.name + ".claims").unlink(missing_ok=True)
    return recording


def recording_of(
    payload: Payload, search: TaskSearch, machine: Machine, options: RecordOptions, *, combinations: int, valid: int
) -> Recording:
    """Return the trials of a search as a recording."""
    alone = replace(search.task.payload, reference=None, inputs=None, graph=(), model="", schedule="")
    return Recording(
        format_version=3,
        payload=payload.name,
        task=replace(search.task, payload=alone),
        family=search.family.name,
        machine=machine,
        versions=versions(),
        seed=options.seed,
        knobs=search.space.knobs,
        combinations=combinations,
        lawful=valid,
        default=dict(search.family.default(search.task, machine)),
        trials=tuple(search.sweep.trials()),
    )
